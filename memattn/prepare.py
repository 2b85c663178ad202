"""Prepares a corpus to train on.

copy        the paper's copy task
wmt17       a language pair of WMT'17, downloaded
multi30k    Multi30k's English and German captions, downloaded
parallel    parallel text of your own
parsing     constituency trees of your own, such as the Penn Treebank
speech      recordings of your own with their text
mini_librispeech   five hours of English audiobooks with their text, downloaded
lexicon     likely translations of each token, from a prepared corpus

memattn-prepare copy --help
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from memattn.prepare_commands.copy_task import copy
from memattn.prepare_commands.lexicon import lexicon
from memattn.prepare_commands.parsing import parsing
from memattn.prepare_commands.speech import mini_librispeech, speech
from memattn.prepare_commands.text import multi30k, parallel, wmt17

COMMANDS = {
    "copy": copy,
    "wmt17": wmt17,
    "multi30k": multi30k,
    "parallel": parallel,
    "parsing": parsing,
    "speech": speech,
    "mini_librispeech": mini_librispeech,
    "lexicon": lexicon,
}


def main() -> None:
    cli.run_one(COMMANDS, __doc__)


if __name__ == "__main__":
    main()
