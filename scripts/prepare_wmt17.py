"""Downloads a language pair of WMT'17 (section 4.2 of the paper) as its organisers preprocessed it, and prepares it.

python scripts/prepare_wmt17.py --pair en-de
"""

import os

from absl import flags

from memattn import cli, preparation_flags
from memattn.data.preparation import download

BASE_URL = "https://data.statmt.org/wmt17/translation-task/preprocessed"
VALIDATION = {"en-cs": "newstest2015", "en-de": "newstest2015", "en-fi": "newstest2015", "en-tr": "newsdev2016"}
TEST = "newstest2016"


def main() -> int:
    options = flags.FLAGS
    source, target = options.pair.split("-")
    release = f"{target}-{source}"
    folder = os.path.join(options.download_dir, release)
    for name in (f"corpus.tc.{source}.gz", f"corpus.tc.{target}.gz", "dev.tgz"):
        download.fetch(f"{options.base_url.rstrip('/')}/{release}/{name}", os.path.join(folder, name))
    splits = {"train": tuple(os.path.join(folder, f"corpus.tc.{language}.gz") for language in (source, target))}
    for split, name in (("valid", VALIDATION[options.pair]), ("test", TEST)):
        names = [f"{name}.tc.{language}" for language in (source, target)]
        splits[split] = tuple(download.take_out(os.path.join(folder, "dev.tgz"), names, folder))
    return preparation_flags.prepare(splits, "truecased", source, target)


if __name__ == "__main__":
    flags.DEFINE_enum("pair", None, list(VALIDATION), "Source and target language.", required=True)
    flags.DEFINE_string("base_url", BASE_URL, "Where the release is, a folder a pair in it.")
    flags.DEFINE_string("download_dir", "data/downloads/wmt17", "Where its files are kept.")
    preparation_flags.define(folder="data/wmt17.{pair}")
    cli.run(main)
