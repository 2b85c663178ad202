"""Archives of releases, for tests of downloads."""

import io
import tarfile


def tar_gz(members):
    """Returns the bytes of a compressed tar archive, from the contents of its members by their names."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()
