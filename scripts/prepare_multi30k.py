"""Downloads Multi30k's English and German captions (Elliott et al., 2016) and prepares them.

python scripts/prepare_multi30k.py
"""

import os

from absl import flags

from memattn import cli, download, preparation_flags

BASE_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}


def main() -> int:
    options = flags.FLAGS
    splits = {}
    for split, name in SPLITS.items():
        names = [f"{name}.{language}.gz" for language in ("en", "de")]
        splits[split] = tuple(os.path.join(options.download_dir, name) for name in names)
        for name, path in zip(names, splits[split], strict=True):
            download.fetch(f"{options.base_url.rstrip('/')}/{name}", path)
    return preparation_flags.prepare(splits, "raw", "en", "de")


if __name__ == "__main__":
    flags.DEFINE_string("base_url", BASE_URL, "Where the text is.")
    flags.DEFINE_string("download_dir", "data/downloads/multi30k", "Where its files are kept.")
    preparation_flags.define(folder="data/multi30k.en-de", bpe_units=4_000)
    cli.run(main)
