"""The command `memattn-prepare lexicon`."""

import os

from absl import flags

from memattn import cli
from memattn.data import corpus
from memattn.data import lexicon as lexicons
from memattn.prepare_commands.common import define_folder


def lexicon() -> None:
    """Runs the command `memattn-prepare lexicon`."""
    define_folder(None, "Folder of a prepared corpus; the lexicon is written into it.", required=True)
    flags.DEFINE_integer("size", 200, "Upper bound on the translations of each token.", lower_bound=1)
    cli.run(_learn_lexicon)


def _learn_lexicon() -> int:
    """Learns a lexicon from a prepared corpus, for vocabulary selection (decoding.lexicon).

    memattn-prepare lexicon --folder data/multi30k.en-de
    """
    folder = flags.FLAGS.folder
    print(lexicons.write(folder, corpus.read_vocabulary(os.path.join(folder, corpus.VOCABULARY)), flags.FLAGS.size))
    return 0
