"""Prepares Multi30k (Elliott et al., 2016): 29,000 captions of pictures in English, and their German translations.

python data/multi30k.py
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import os

import web
from absl import flags

from memattn.data.preparation.commands import define_text_flags, prepare_text
from memattn.data.tokenizer import TextSettings

URL = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
DOWNLOADS = "data/downloads/multi30k"
SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
CHECKSUMS = {
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
}


def main() -> None:
    options = flags.FLAGS
    prepare_text(options, fetch(options.base_url, DOWNLOADS), TextSettings("raw", "en", "de"))


def fetch(base_url: str, folder: str) -> dict[str, tuple[str, str]]:
    """Downloads the captions, and returns the source and target file of each split: raw text. Raises DataError."""
    web.fetch(CHECKSUMS, base_url, folder)
    return {
        split: (os.path.join(folder, f"{name}.en.gz"), os.path.join(folder, f"{name}.de.gz"))
        for split, name in SPLITS.items()
    }


if __name__ == "__main__":
    flags.DEFINE_string("base_url", URL, "Address of the release.")
    define_text_flags("data/multi30k.en-de", bpe_units=4_000)
    cli.run(main)
