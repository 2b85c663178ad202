"""Downloads Multi30k's English and German captions (Elliott et al., 2016) and prepares them.

python scripts/prepare_multi30k.py
"""

import os

from absl import flags

from memattn import cli, preparation_flags
from memattn.data.preparation import download

BASE_URL = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
SHA256 = {
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
}


def main() -> int:
    options = flags.FLAGS
    splits = {}
    for split, name in SPLITS.items():
        names = [f"{name}.{language}.gz" for language in ("en", "de")]
        splits[split] = tuple(os.path.join(options.download_dir, name) for name in names)
        for name, path in zip(names, splits[split], strict=True):
            download.fetch(f"{options.base_url.rstrip('/')}/{name}", path, SHA256[name])
    return preparation_flags.prepare(splits, "raw", "en", "de")


if __name__ == "__main__":
    flags.DEFINE_string("base_url", BASE_URL, "Where the text is.")
    flags.DEFINE_string("download_dir", "data/downloads/multi30k", "Where its files are kept.")
    preparation_flags.define(folder="data/multi30k.en-de", bpe_units=4_000)
    cli.run(main)
