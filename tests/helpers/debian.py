"""Programs that stand in for apt-get and dpkg-deb; their packages are tar archives."""

import os
import sys
import tarfile

PROGRAMS = {
    "apt-get": """
import glob, os, shutil, sys
archive, (_, configuration, action, *names) = {archive!r}, sys.argv[1:]
print("apt-get", action, *names, file=open(os.path.join(archive, "log"), "a"))
if action == "update":
    shutil.copy(configuration, archive)
    for path in glob.glob(os.path.join(archive, "*Translation-*")):
        shutil.copy(path, "lists")
for name in names:
    packages = glob.glob(os.path.join(archive, name + "_*.deb")) or sys.exit("E: Unable to locate package " + name)
    shutil.copy(packages[0], ".")
""",
    "dpkg-deb": """
import sys, tarfile
tarfile.open(sys.argv[2]).extractall(sys.argv[3], filter="data")
""",
}


def environment(folder):
    """Writes the programs into a folder; returns an environment in which they run. apt-get's archive is `folder`."""
    for name, program in PROGRAMS.items():
        path = folder / name
        path.write_text(f"#!{sys.executable}\n{program.replace('{archive!r}', repr(str(folder)))}")
        path.chmod(0o755)
    return {**os.environ, "PATH": os.pathsep.join([str(folder), os.environ["PATH"]])}


def write_package(path, folder):
    """Writes a package with the files of a folder."""
    with tarfile.open(path, "w") as archive:
        archive.add(folder, arcname=".")
