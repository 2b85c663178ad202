"""The command `memattn-prepare parallel`."""

import os
import warnings
from typing import get_args

from absl import flags

from memattn import cli, processes
from memattn.data import corpus
from memattn.data.languages import known_code
from memattn.data.preparation import advice
from memattn.data.preparation import parallel as text_preparation
from memattn.data.preparation.chunks import count_lines
from memattn.data.preparation.learning import default_units
from memattn.data.tokenizer import Form, TextSettings, Units, has_moses_rules
from memattn.errors import ConfigError
from memattn.prepare_commands.common import check_folder, check_language, define_folder, print_source

_LEARNING_FLAGS = ("bpe_units", "bpe_sample", "seed")
_UNITS_IN_WORDS: dict[Units, str] = {"bpe": "BPE units", "spelled": "words and characters"}


def parallel() -> None:
    """Runs the command `memattn-prepare parallel`."""
    flags.DEFINE_string("train", None, "Prefix of the training text.", required=True)
    flags.DEFINE_string("valid", None, "Prefix of the validation text.", required=True)
    flags.DEFINE_string("test", None, "Prefix of the test text.")
    for side in corpus.SIDES:
        flags.DEFINE_string(side, None, f"End of the names of the {side}s' files, such as de.", required=True)
        language = f"Language of the {side}s, such as de or pt-BR (default: --{side})."
        flags.DEFINE_string(f"{side}_language", None, language)
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


def _prepare_parallel() -> int:
    """Prepares parallel text: a prefix names the two files of a split, PREFIX.en and PREFIX.de, or .gz of them.

    memattn-prepare parallel --train text/train --valid text/dev --test text/test --source en --target de \\
        --form raw --folder data/my_corpus
    memattn-prepare parallel --train text/train --valid text/dev --source src --target tgt \\
        --source_language en --target_language ko --folder data/my_corpus
    """
    options = flags.FLAGS
    prefixes = {"train": options.train, "valid": options.valid, "test": options.test}
    if empty := [split for split, prefix in prefixes.items() if prefix == ""]:
        raise ConfigError(f"--{empty[0]}: an empty prefix; give the beginning of the names of two files")
    splits = {
        split: (_existing(f"{prefix}.{options.source}"), _existing(f"{prefix}.{options.target}"))
        for split, prefix in prefixes.items()
        if prefix
    }
    languages = (_language(options, side) for side in corpus.SIDES)
    prepare_text(options, splits, options.form, *languages, units=options.units)
    return 0


def _language(options: flags.FlagValues, side: str) -> str:
    """Returns the language of a side by its code in Moses; warns if Moses has no rules for it. Raises ConfigError."""
    code = getattr(options, f"{side}_language")
    if code is not None:
        check_language(f"{side}_language", code)
    language = known_code(getattr(options, side) if code is None else code)
    if options.form != "untokenized" and not has_moses_rules(language):
        warnings.warn(
            f"--{side}_language: Moses has no rules for {language!r}, and those of English are used; if this is not "
            "the code of the language, such as de, ko or pt-BR, give it",
            stacklevel=2,
        )
    return language


def _existing(path: str) -> str:
    """Returns the path of a file, or of its .gz. Raises ConfigError unless exactly one of them is there."""
    paths = list(filter(os.path.exists, (path, f"{path}.gz")))
    if len(paths) != 1:
        problem = "are both there; remove one" if paths else "are both missing"
        raise ConfigError(f"{path} and {path}.gz {problem}")
    return paths[0]


def define_text_flags(
    folder: str | None = None,
    bpe_units: int | None = None,
    max_length: int = text_preparation.Settings.max_length,
) -> None:
    """Defines the flags that all preparations of text share.

    Args:
      folder: default of --folder; None makes the flag required.
      bpe_units: default of --bpe_units; None chooses it by the number of training pairs.
      max_length: default of --max_length.
    """
    define_folder(folder, "Folder of the prepared corpus.", required=folder is None)
    meaning = "Number of vocabulary units, and of joint BPE merges"
    if bpe_units is None:
        meaning += " (default: 4,000; 8,000 from 100,000 training pairs on; 16,000 from 1,000,000 on)"
    flags.DEFINE_integer("bpe_units", bpe_units, f"{meaning}.", lower_bound=1)
    flags.DEFINE_string(
        "vocabulary_of",
        None,
        "Run folder or prepared corpus whose BPE and vocabulary are used, in place of learning them.",
    )
    defaults = text_preparation.Settings
    meaning = "Upper bound on the pairs that BPE is learned from."
    flags.DEFINE_integer("bpe_sample", defaults.bpe_sample, meaning, lower_bound=1)
    flags.DEFINE_integer(
        "max_length",
        max_length,
        "Upper bound on the units of either side; longer training pairs are dropped. The end of sentence is no unit "
        "here, but data.max_source_length counts it.",
        lower_bound=1,
    )
    flags.DEFINE_integer("seed", defaults.seed, "Seed of --bpe_sample.", lower_bound=0, upper_bound=2**32 - 1)
    flags.DEFINE_integer("workers", None, "Number of processes (default: one for each CPU core).", lower_bound=1)


def prepare_text(
    options: flags.FlagValues,
    splits: text_preparation.Splits,
    form: Form,
    source_language: str,
    target_language: str,
    *,
    units: Units = "bpe",
    config: str | None = None,
    release: dict[str, str | int] | None = None,
) -> int:
    """Prepares splits, and prints the counts of the training split and how to train on it.

    Args:
      options: flags that `define_text_flags` defines. In --folder, `{pair}` stands for the languages.
      splits: the source and the target file of each split.
      form: form of the lines.
      source_language: language of the sources.
      target_language: language of the targets.
      units: units of words.
      config: the config to train with; None chooses one of own_text by the number of training pairs and whether there
        is a GPU.
      release: what the manifest says about the release that the text is from; it is printed.

    Returns the number of training pairs read. Raises ConfigError, DataError, OSError.
    """
    folder = options.folder.replace("{pair}", f"{source_language}-{target_language}")
    learning = {name: options[name].value for name in _LEARNING_FLAGS}
    if options.vocabulary_of:
        if unused := [f"--{name}" for name in _LEARNING_FLAGS if options[name].present]:
            raise ConfigError(f"{', '.join(unused)}: without effect, because --vocabulary_of gives the BPE")
        learning = dict.fromkeys(learning)
    check_folder(folder)
    if not options.vocabulary_of and learning["bpe_units"] is None:
        learning["bpe_units"] = default_units(count_lines(splits["train"][0]))
    settings = text_preparation.Settings(
        text=TextSettings(form, source_language, target_language, units), max_length=options.max_length, **learning
    )
    workers = options.workers or processes.cores()
    manifest = text_preparation.prepare(splits, settings, folder, workers, options.vocabulary_of, release)
    train = manifest["counts"]["train"]
    print(
        f"{folder}: {train['pairs']:,} training pairs of {train['read']:,} "
        f"({train['dropped_empty']:,} empty and {train['dropped_too_long']:,} of more than {options.max_length:,} "
        "units dropped), "
        f"{train['source_tokens']:,} source and {train['target_tokens']:,} target tokens"
        + (f", {settings.bpe_units:,} {_UNITS_IN_WORDS[units]}" if settings.bpe_units else "")
    )
    config = config or advice.own_text_config(train["pairs"], gpu=advice.has_gpu())
    tokens = train["source_tokens"] + train["target_tokens"]
    if time := advice.training_time(config, train["pairs"], tokens, settings.bpe_units):
        print(time)
    print(advice.training(config, folder, advice.validation_changes(config, train["pairs"])))
    print_source(release)
    return train["read"]
