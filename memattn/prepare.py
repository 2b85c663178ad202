"""Prepares a corpus to train on. In a clone, the scripts in data/ prepare public corpora.

parallel    parallel text of your own
parsing     constituency trees of your own, such as the Penn Treebank
speech      recordings of your own with their text
lexicon     likely translations of each token, from a prepared corpus

memattn-prepare parallel --help
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import os
import warnings
from typing import Any, get_args

from absl import flags

from memattn.data import corpus, lexicon
from memattn.data.preparation.commands import (
    check_unused,
    define_folder,
    define_speech_flags,
    define_text_flags,
    define_tree_flags,
    prepare_speech,
    prepare_text,
    prepare_trees,
)
from memattn.data.tokenizer import Form, TextSettings, Units, has_moses_rules, known_code
from memattn.errors import ConfigError


def parallel() -> None:
    flags.DEFINE_string("train", None, "Prefix of the training text.", required=True)
    flags.DEFINE_string("valid", None, "Prefix of the validation text.", required=True)
    flags.DEFINE_string("test", None, "Prefix of the test text.")
    for name in corpus.SIDES:
        flags.DEFINE_string(name, None, f"Suffix of the {name}s' files, such as de.", required=True)
        language = f"Language of the {name}s, such as de or pt-BR (default: --{name})."
        flags.DEFINE_string(f"{name}_language", None, language)
    flags.DEFINE_enum(
        "form",
        "raw",
        get_args(Form),
        "Form of the lines: plain text (raw), tokenized by Moses (tokenized), also truecased (truecased), or plain "
        "text that stays as it is (untokenized).",
    )
    flags.DEFINE_enum(
        "units",
        "bpe",
        get_args(Units),
        "Units of words: byte-pair encoding (bpe), or frequent words, and letters for all others (spelled).",
    )
    define_text_flags()
    cli.run(_prepare_parallel)


def parsing() -> None:
    names = "files, or patterns such as 'wsj/0[2-9]/*.mrg', separated by commas"
    flags.DEFINE_list("train", None, f"Training trees: {names}.", required=True)
    flags.DEFINE_list("valid", None, "Validation trees, as --train.", required=True)
    flags.DEFINE_list("test", None, "Test trees, as --train.")
    define_tree_flags()
    cli.run(_prepare_parsing)


def speech() -> None:
    manifest = "lines of audio file, tab, text; or .jsonl with audio and text"
    flags.DEFINE_string("train", None, f"Training manifest: {manifest}. Needed unless --vocabulary_of is given.")
    flags.DEFINE_string("valid", None, "Validation manifest, as --train.")
    flags.DEFINE_string("test", None, "Test manifest, as --train.")
    flags.DEFINE_string("language", "en", "Code of the language, such as de.")
    flags.DEFINE_string(
        "vocabulary_of",
        None,
        "Prepared corpus of speech whose units, vocabulary, and mean and variance of features are used.",
    )
    define_speech_flags()
    cli.run(_prepare_speech, tensorflow=True, check=_check_speech)


def learn_lexicon() -> None:
    define_folder(None, "Folder of a prepared corpus; the lexicon is written into it.")
    flags.DEFINE_integer("size", 200, "Upper bound on the translations of each token.", lower_bound=1)
    cli.run(_learn_lexicon)


COMMANDS = {"parallel": parallel, "parsing": parsing, "speech": speech, "lexicon": learn_lexicon}


def _prepare_parallel() -> int:
    """Prepares parallel text: a prefix names the two files of a split, PREFIX.en and PREFIX.de, or .gz of them.

    memattn-prepare parallel --train text/train --valid text/dev --test text/test --source en --target de \\
        --form raw --folder data/my_corpus
    """
    options = flags.FLAGS
    splits = {
        split: (_existing(f"{prefix}.{options.source}"), _existing(f"{prefix}.{options.target}"))
        for split, prefix in _files(options).items()
    }
    languages = []
    for name in corpus.SIDES:
        language = known_code(getattr(options, f"{name}_language") or getattr(options, name))
        languages.append(language)
        if options.form != "untokenized" and not has_moses_rules(language):
            warnings.warn(
                f"--{name}_language: Moses has no rules for {language!r}, and those of English are used; if this is "
                "not the code of the language, such as de, ko or pt-BR, give it",
                stacklevel=1,
            )
    source, target = languages
    prepare_text(options, splits, TextSettings(options.form, source, target, options.units))
    return 0


def _prepare_parsing() -> int:
    """Prepares constituency trees: the sources are words, the targets brackets, as in Vinyals et al. (2015).

    memattn-prepare parsing --train 'wsj/0[2-9]/*.mrg,wsj/1?/*.mrg,wsj/2[01]/*.mrg' --valid 'wsj/22/*.mrg' \\
        --test 'wsj/23/*.mrg' --folder data/wsj.trees
    """
    prepare_trees(flags.FLAGS, _files(flags.FLAGS))
    return 0


def _prepare_speech() -> int:
    """Prepares recordings with their text: log-mel features as sources, characters or BPE units as targets.

    memattn-prepare speech --train text/train.tsv --valid text/dev.tsv --test text/test.tsv --folder data/mine
    """
    options = flags.FLAGS
    prepare_speech(options, options.folder, _files(options), options.language, options.vocabulary_of)
    return 0


def _check_speech() -> None:
    options, manifests = flags.FLAGS, _files(flags.FLAGS)
    missing = [split for split in ("train", "valid") if split not in manifests]
    if missing and not (options.vocabulary_of and manifests):
        advice = "give a manifest, or --vocabulary_of a corpus that is prepared already and any of the manifests"
        raise ConfigError(f"--{missing[0]}: {advice}")
    if options.vocabulary_of:
        check_unused(options, ("bpe_units", "language"), "units and language")


def _learn_lexicon() -> int:
    """Learns a lexicon from a prepared corpus, for vocabulary selection (decoding.lexicon).

    memattn-prepare lexicon --folder data/multi30k.en-de
    """
    folder = flags.FLAGS.folder
    print(lexicon.write(folder, corpus.read_vocabulary(folder), flags.FLAGS.size))
    return 0


def _files(options: flags.FlagValues) -> dict[str, Any]:
    """Returns what the flags --train, --valid and --test name, by split."""
    return {split: options[split].value for split in ("train", "valid", "test") if options[split].value is not None}


def _existing(path: str) -> str:
    """Returns the path of a file, or of its .gz. Raises ConfigError unless exactly one of them is there."""
    paths = list(filter(os.path.exists, (path, f"{path}.gz")))
    if len(paths) != 1:
        problem = "are both there; remove one" if paths else "are both missing"
        raise ConfigError(f"{path} and {path}.gz {problem}")
    return paths[0]


def main() -> None:
    cli.run_one(COMMANDS, __doc__)


if __name__ == "__main__":
    main()
