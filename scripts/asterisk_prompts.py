"""Writes manifests of Asterisk's English voice prompts, which a person speaks, for `memattn-prepare speech`.

apt-get install asterisk-core-sounds-en-wav
python scripts/asterisk_prompts.py

A prompt with more than eight words or with digits is left out. Of the others, half are the split `test`, a tenth the
split `valid`, and the rest the split `train`. The recordings, by Allison Smith under CC BY-SA 3.0, stay where Debian's
package puts them.
"""

import memattn.cli as cli  # isort: skip (Ctrl-C ends the process with one line from here on)

import json
import os
import random

from absl import flags
from speak_captions import spoken_words

from memattn import files
from memattn.data.text_files import read_lines
from memattn.errors import ConfigError


def main() -> int:
    options = flags.FLAGS
    if not os.path.isfile(options.texts):
        raise ConfigError(f"{options.texts}: no such file; install it: apt-get install asterisk-core-sounds-en-wav")
    prompts = read_prompts(options.texts, options.sounds)
    if not prompts:
        raise ConfigError(f"{options.sounds}: no recording of a short prompt of {options.texts}")
    random.Random(1).shuffle(prompts)  # noqa: S311
    half, tenth = len(prompts) // 2, len(prompts) // 10
    splits = {"test": prompts[:half], "valid": prompts[half : half + tenth], "train": prompts[half + tenth :]}
    os.makedirs(options.folder, exist_ok=True)
    for split, chosen in splits.items():
        path = os.path.join(options.folder, f"{split}.jsonl")
        files.write(path, "".join(json.dumps(prompt) + "\n" for prompt in chosen))
        print(f"{path}: {len(chosen)} prompts")
    return 0


def read_prompts(texts: str, sounds: str) -> list[dict[str, str]]:
    """Returns the recording and the text of each short prompt; of equal texts, the first.

    Args:
      texts: file with lines "NAME: text"; a text in brackets describes a sound without words, and is left out.
      sounds: folder of the recordings NAME.wav.
    """
    prompts: dict[str, dict[str, str]] = {}
    for line in read_lines(texts):
        name, _, text = line.partition(":")
        audio, words = os.path.join(sounds, f"{name}.wav"), spoken_words(text)
        if words and os.path.isfile(audio):
            prompts.setdefault(words, {"audio": os.path.abspath(audio), "text": words})
    return list(prompts.values())


if __name__ == "__main__":
    flags.DEFINE_string(
        "texts", "/usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz", "File with the texts of the prompts."
    )
    flags.DEFINE_string("sounds", "/usr/share/asterisk/sounds/en_US_f_Allison", "Folder of the recordings.")
    flags.DEFINE_string("folder", "data/downloads/asterisk", "Folder of the manifests.")
    cli.run(main)
