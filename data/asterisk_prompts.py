"""Prepares Asterisk's English voice prompts, which a person speaks, with the vocabulary of spoken_captions.py.

apt-get install asterisk-core-sounds-en-wav
python data/asterisk_prompts.py

A prompt with more than eight words or with digits is left out. Of the others, half are the split `test`, a tenth the
split `valid`, and the rest the split `train`. The recordings, by Allison Smith under CC BY-SA 3.0, stay where they are.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import json
import os
import random

from absl import flags
from spoken_captions import spoken_words

from memattn import files
from memattn.data.preparation.commands import define_speech_flags, prepare_speech
from memattn.errors import ConfigError

# Where Debian's package puts the texts of the prompts, and the recordings.
TEXTS = "/usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz"
SOUNDS = "/usr/share/asterisk/sounds/en_US_f_Allison"


def main() -> None:
    options = flags.FLAGS
    manifests = write_manifests(TEXTS, SOUNDS, "data/downloads/asterisk")
    prepare_speech(options, options.folder, manifests, "en", vocabulary_of=options.vocabulary_of)


def write_manifests(texts: str, sounds: str, folder: str) -> dict[str, str]:
    """Writes the manifests of the splits into a folder, and returns their paths. Raises ConfigError, OSError.

    `texts` and `sounds` are what `read_prompts` takes.
    """
    if not os.path.isfile(texts):
        raise ConfigError(f"{texts}: no such file; install it: apt-get install asterisk-core-sounds-en-wav")
    prompts = read_prompts(texts, sounds)
    random.Random(1).shuffle(prompts)  # noqa: S311
    half, tenth = len(prompts) // 2, len(prompts) // 10
    splits = {"test": prompts[:half], "valid": prompts[half : half + tenth], "train": prompts[half + tenth :]}
    os.makedirs(folder, exist_ok=True)
    manifests = {split: os.path.join(folder, f"{split}.jsonl") for split in ("train", "valid", "test")}
    for split, path in manifests.items():
        files.write(path, "".join(json.dumps(prompt) + "\n" for prompt in splits[split]))
    return manifests


def read_prompts(texts: str, sounds: str) -> list[dict[str, str]]:
    """Returns the recording and the text of each short prompt; of equal texts, the first.

    Args:
      texts: file with lines "NAME: text"; a text in brackets describes a sound without words, and is left out.
      sounds: folder of the recordings NAME.wav.
    """
    prompts: dict[str, dict[str, str]] = {}
    for line in files.read_lines(texts):
        name, _, text = line.partition(":")
        audio, words = os.path.join(sounds, f"{name}.wav"), spoken_words(text)
        if words and os.path.isfile(audio):
            prompts.setdefault(words, {"audio": os.path.abspath(audio), "text": words})
    return list(prompts.values())


if __name__ == "__main__":
    flags.DEFINE_string("vocabulary_of", "data/espeak", "Prepared corpus whose vocabulary and statistics are used.")
    define_speech_flags("data/asterisk")
    cli.run(main, tensorflow=True)
