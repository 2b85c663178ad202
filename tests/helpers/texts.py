"""Random sentences, and settings to prepare a corpus from them."""

import random

from memattn.data.preparation.parallel import Settings
from memattn.data.tokenizer import TextSettings

WORDS = ["der", "die", "das", "ein", "eine", "und", "ist", "war", "Haus", "Hund", "Katze"]
WORDS += ["Stadt", "Fluss", "geht", "kommt", "sieht", "alt", "neu", "grün", "schnell", "&apos;s", "@-@"]
SETTINGS = Settings(TextSettings("raw", "en", "de"), bpe_units=100, max_length=200)


def sentences(number, seed):
    """Random sentences of WORDS, 1 to 25 words each."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 25))) for _ in range(number)]
