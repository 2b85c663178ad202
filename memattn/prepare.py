"""Prepares a corpus to train on. In a clone, the scripts in data/ prepare public corpora.

parallel    parallel text of your own
parsing     constituency trees of your own, such as the Penn Treebank
speech      recordings of your own with their text
lexicon     likely translations of each token, from a prepared corpus

memattn-prepare parallel --help
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from memattn.prepare_commands.lexicon import lexicon
from memattn.prepare_commands.parsing import parsing
from memattn.prepare_commands.speech import speech
from memattn.prepare_commands.text import parallel

COMMANDS = {
    "parallel": parallel,
    "parsing": parsing,
    "speech": speech,
    "lexicon": lexicon,
}


def main() -> None:
    cli.run_one(COMMANDS, __doc__)


if __name__ == "__main__":
    main()
