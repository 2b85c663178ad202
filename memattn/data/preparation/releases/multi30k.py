"""Multi30k: captions of pictures, in English and German."""

import os

from memattn.data.preparation import download

URL = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
SHA256 = {
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
}


def fetch(base_url: str, folder: str) -> dict[str, tuple[str, str]]:
    """Downloads the English and German captions, and returns the source and target file of each split: raw text.

    Raises DataError, also for a file with another checksum, OSError.
    """
    splits = {}
    for split, prefix in SPLITS.items():
        source, target = (os.path.join(folder, f"{prefix}.{language}.gz") for language in ("en", "de"))
        for path in (source, target):
            name = os.path.basename(path)
            download.fetch(f"{base_url.rstrip('/')}/{name}", path, SHA256[name])
        splits[split] = (source, target)
    return splits
