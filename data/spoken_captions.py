"""Prepares synthetic speech: Multi30k's short English captions, as the synthesizer espeak-ng speaks them.

apt-get install espeak-ng
python data/spoken_captions.py

The folder of the recordings gets a WAV file for each utterance, and a manifest for each split, which also has the
voices and the rates. The split `unheard` has the captions of `test` at the same rates, in voices that are not in the
training split; it is prepared as a corpus of its own, FOLDER.unheard.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import json
import os
import random
import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

import multi30k
import recipes
from absl import flags
from tqdm import tqdm

from memattn import files
from memattn.data.preparation.commands import define_speech_flags, prepare_speech

INSTALL = "install it: apt-get install espeak-ng"
MAX_WORDS = 8
RATES = 130, 210  # words a minute
# Accents, each with a variant of its voice. `en` is British English; under its other name, en-gb, it has no variants.
HEARD = (
    "en-us+m1",
    "en-us+m3",
    "en-us+f1",
    "en-us-nyc+m2",
    "en+m2",
    "en+f2",
    "en-gb-scotland+m5",
    "en-gb-scotland+f4",
    "en-gb-x-rp+m6",
    "en-gb-x-rp+f1",
    "en-gb-x-gbcwmd+f2",
    "en-029+m7",
)
UNHEARD = ("en-us+m4", "en+f3", "en-gb-scotland+m8", "en-gb-x-gbclan+f5")
# File of captions, and voices, of each split. A caption that is in several of these files is used in the first alone.
SPLITS = {
    "test": ("test_2016_flickr.en.gz", HEARD),
    "unheard": ("test_2016_flickr.en.gz", UNHEARD),
    "valid": ("val.en.gz", HEARD),
    "train": ("train.en.gz", HEARD),
}


class Utterance(NamedTuple):
    """A caption, the voice of espeak-ng that speaks it, and the rate in words a minute."""

    text: str
    voice: str
    rate: int


def main() -> None:
    options = flags.FLAGS
    manifests = speak(multi30k.DOWNLOADS, "data/downloads/espeak")
    unheard = manifests.pop("unheard")
    folder = os.path.normpath(options.folder)
    prepare_speech(options, folder, manifests, "en")
    prepare_speech(options, f"{folder}.unheard", {"test": unheard}, "en", vocabulary_of=folder)


def speak(captions: str, folder: str) -> dict[str, str]:
    """Writes recordings and manifests into a folder; returns the path of each split's manifest.

    `captions` is the folder of Multi30k's files, which are downloaded if they are missing. Raises ConfigError,
    DataError, RunError, OSError.
    """
    version = recipes.run(["espeak-ng", "--version"], INSTALL)
    multi30k.fetch(multi30k.URL, captions)
    texts: dict[str, list[str]] = {}
    for split, (name, voices) in SPLITS.items():
        if name not in texts:
            earlier = {text for texts_of_file in texts.values() for text in texts_of_file}
            texts[name] = short_captions(files.read_lines(os.path.join(captions, name)), earlier)
        write_split(folder, split, utterances(texts[name], voices, seed=name))
    synthesizer = {"version": version.partition("  ")[0].strip(), "rates": RATES, "heard": HEARD, "unheard": UNHEARD}
    files.write(os.path.join(folder, "synthesizer.json"), json.dumps(synthesizer, indent=2) + "\n")
    return {split: os.path.join(folder, f"{split}.jsonl") for split in ("train", "valid", "test", "unheard")}


def short_captions(lines: Iterable[str], excluded: Collection[str]) -> list[str]:
    """Returns the `spoken_words` of those lines that have some: each text once, and none that is `excluded`."""
    texts = dict.fromkeys(filter(None, map(spoken_words, lines)))
    return [text for text in texts if text not in excluded]


def spoken_words(line: str) -> str | None:
    """Returns a line in lower case, without punctuation, and with blanks in place of hyphens.

    Returns None if the line has no words, more than MAX_WORDS, or characters other than a to z and apostrophes, such as
    digits.
    """
    text = " ".join(re.sub(r'[.,;:!?"()]', "", line.lower().replace("-", " ")).split())
    return text if re.fullmatch(rf"[a-z']+( [a-z']+){{0,{MAX_WORDS - 1}}}", text) else None


def utterances(texts: list[str], voices: tuple[str, ...], seed: str) -> list[Utterance]:
    """Draws a rate and a voice for each text. The rates depend on the seed and not on the voices."""
    generator = random.Random(seed)  # noqa: S311
    rates = [generator.randint(*RATES) for _ in texts]
    return [
        Utterance(text, voice, rate)
        for text, rate, voice in zip(texts, rates, generator.choices(voices, k=len(texts)), strict=True)
    ]


def write_split(folder: str, split: str, spoken: list[Utterance]) -> None:
    """Writes the recordings of a split, and then its manifest. Raises RunError if espeak-ng fails, OSError."""
    os.makedirs(os.path.join(folder, split), exist_ok=True)
    lines = []
    for number, utterance in enumerate(tqdm(spoken, f"speaking, {split}", unit=" captions", disable=None)):
        audio = f"{split}/{number:05}.wav"
        options = ["-v", utterance.voice, "-s", str(utterance.rate), "-w", os.path.join(folder, audio)]
        recipes.run(["espeak-ng", *options, utterance.text], INSTALL, f"espeak-ng with the voice {utterance.voice}")
        lines.append(json.dumps({"audio": audio, **utterance._asdict()}) + "\n")
    files.write(os.path.join(folder, f"{split}.jsonl"), "".join(lines))
    print(f"{folder}/{split}.jsonl: {len(spoken):,} utterances", flush=True)


if __name__ == "__main__":
    define_speech_flags("data/espeak")
    cli.run(main, tensorflow=True)
