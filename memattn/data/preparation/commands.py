"""Flags and preparations that memattn-prepare shares with the recipes in data/. Each prints what it has made."""

import math
import os

from absl import flags

from memattn import processes
from memattn.data.preparation import advice, parallel, parsing
from memattn.data.preparation.chunks import count_lines
from memattn.data.preparation.folder import Release
from memattn.data.tokenizer import TextSettings, Units, known_code
from memattn.errors import ConfigError

_UNITS_IN_WORDS: dict[Units, str] = {"bpe": "BPE units", "spelled": "words and characters"}


def define_text_flags(
    folder: str | None = None,
    bpe_units: int | None = None,
    max_length: int = parallel.Settings.max_length,
) -> None:
    """Defines the flags that all preparations of text share. The arguments are their defaults.

    Without a default, --folder is required, and --bpe_units goes by the number of training pairs.
    """
    define_folder(folder)
    meaning = "Number of vocabulary units, and of joint BPE merges"
    if bpe_units is None:
        meaning += " (default: 4,000; 8,000 from 100,000 training pairs on; 16,000 from 1,000,000 on)"
    flags.DEFINE_integer("bpe_units", bpe_units, f"{meaning}.", lower_bound=1)
    flags.DEFINE_string(
        "vocabulary_of",
        None,
        "Run folder or prepared corpus whose BPE and vocabulary are used, in place of learning them.",
    )
    flags.DEFINE_integer(
        "max_length",
        max_length,
        "Upper bound on the units of either side; longer training pairs are dropped.",
        lower_bound=1,
    )
    flags.DEFINE_integer("workers", None, "Number of processes (default: one for each CPU core).", lower_bound=1)


def define_tree_flags(folder: str | None = None) -> None:
    """Defines the flags that all preparations of trees share. `folder` is the default of --folder; None: required."""
    define_folder(folder)
    meaning = "Least number of occurrences in training of a word of the vocabulary."
    flags.DEFINE_integer("min_count", 2, meaning, lower_bound=1)


def define_speech_flags(folder: str | None = None) -> None:
    """Defines the flags that all preparations of speech share. `folder` is the default of --folder; None: required."""
    define_folder(folder)
    meaning = "Number of BPE merges of the text, and of vocabulary units (default: characters, not BPE)."
    flags.DEFINE_integer("bpe_units", None, meaning, lower_bound=1)
    meaning = "Longest recording in seconds; longer ones are skipped in training, and refused in other splits."
    flags.DEFINE_float("max_seconds", 40.0, meaning, lower_bound=0.1)
    flags.register_validator("max_seconds", math.isfinite, "must be finite")
    flags.DEFINE_integer("workers", None, "Number of threads (default: one for each CPU core).", lower_bound=1)


def prepare_text(
    options: flags.FlagValues,
    splits: parallel.Splits,
    text: TextSettings,
    *,
    config: str | None = None,
    release: Release | None = None,
) -> int:
    """Prepares splits, and prints the counts of the training split and how to train on it.

    Args:
      options: flags that `define_text_flags` defines. In --folder, `{pair}` stands for the languages.
      splits: the source and the target file of each split.
      text: form, languages and units of the text.
      config: the config to train with; None chooses one of own_text by the number of training pairs and whether there
        is a GPU.
      release: what is known of the release that the text is from, for the manifest; it is printed.

    Returns the number of training pairs read. Raises ConfigError, DataError, OSError.
    """
    folder = options.folder.replace("{pair}", f"{text.source_language}-{text.target_language}")
    if options.vocabulary_of:
        check_unused(options, ("bpe_units",), "the BPE")
        bpe_units = None
    else:
        bpe_units = options.bpe_units or advice.default_units(count_lines(splits["train"][0]))
    settings = parallel.Settings(text, bpe_units, options.max_length)
    workers = options.workers or processes.cores()
    train = parallel.prepare(splits, settings, folder, workers, options.vocabulary_of, release)["train"]
    print(
        f"{folder}: {train['pairs']:,} training pairs of {train['read']:,} "
        f"({train['dropped_empty']:,} empty and {train['dropped_too_long']:,} of more than {options.max_length:,} "
        "units dropped), "
        f"{train['source_tokens']:,} source and {train['target_tokens']:,} target tokens"
        + (f", at most {bpe_units:,} {_UNITS_IN_WORDS[text.units]}" if bpe_units else "")
    )
    config = config or advice.own_text_config(train["pairs"], gpu=advice.has_gpu())
    tokens = train["source_tokens"] + train["target_tokens"]
    if time := advice.training_time(config, train["pairs"], tokens, bpe_units):
        print(time)
    print(advice.training_command(config, folder, advice.validation_changes(config, train["pairs"])))
    _print_release(release)
    return train["read"]


def prepare_trees(options: flags.FlagValues, splits: dict[str, list[str]]) -> None:
    """Prepares splits, and prints the counts of the training split and how to train on it.

    `options` are the flags that `define_tree_flags` defines; `splits` are as `parsing.prepare` takes them. Raises
    ConfigError, DataError, RunError, OSError.
    """
    train = parsing.prepare(splits, options.min_count, options.folder)["train"]
    print(
        f"{options.folder}: {train['pairs']:,} training trees, {train['source_tokens']:,} words, "
        f"{train['target_tokens']:,} target tokens"
    )
    print(advice.training_command("parsing/small", options.folder))


def prepare_speech(
    options: flags.FlagValues,
    folder: str,
    manifests: dict[str, str],
    language: str,
    vocabulary_of: str | None = None,
    release: Release | None = None,
) -> None:
    """Prepares splits, and prints the counts of each and how to train on them.

    Args:
      options: flags that `define_speech_flags` defines.
      language: code of the language.
      folder, manifests, vocabulary_of, release: as `speech.prepare` takes them.

    Raises ConfigError, DataError, OSError.
    """
    from memattn.data.preparation import speech  # loads TensorFlow

    text = TextSettings("untokenized", "", known_code(language), "bpe" if options.bpe_units else "spelled")
    settings = speech.Settings(text, options.bpe_units, options.max_seconds)
    was_complete = os.path.exists(folder)
    workers = options.workers or processes.cores()
    counts_of_splits = speech.prepare(manifests, settings, folder, workers, vocabulary_of, release)
    if was_complete:  # the manifests are those of the corpus, but the recordings may have changed
        print(f"{folder}: complete, and left as it is, even if recordings have changed; to make it anew, remove it")
    for split, counts in counts_of_splits.items():
        notes = {
            "skipped": counts["read"] - counts["pairs"],
            "with several channels, averaged": counts["mixed"],
            "resampled to 16 kHz": counts["resampled"],
        }
        extra = "".join(f", {number:,} {note}" for note, number in notes.items() if number)
        print(
            f"{folder}: {split}: {counts['pairs']:,} recordings of {counts['read']:,}, "
            f"{counts['seconds'] / 3600:.2f} hours, {counts['target_tokens']:,} target tokens{extra}"
        )
        if counts["unknown_tokens"]:
            print(f"{folder}: {split}: {counts['unknown_tokens']:,} target tokens are not in the vocabulary")
    if "train" in manifests:
        print(advice.training_command("speech/small", folder))
    _print_release(release)


def check_unused(options: flags.FlagValues, names: tuple[str, ...], what: str) -> None:
    """Raises ConfigError if flags are given whose values --vocabulary_of gives."""
    if unused := [f"--{name}" for name in names if options[name].present]:
        raise ConfigError(f"{', '.join(unused)}: without effect, because --vocabulary_of gives {what}")


def define_folder(default: str | None, meaning: str = "Folder of the prepared corpus.") -> None:
    """Defines --folder, which is required if it has no default."""
    flags.DEFINE_string("folder", default, meaning, required=default is None)


def _print_release(release: Release | None) -> None:
    """Prints what is known of a release, such as where its files are from, and their license."""
    for name, value in (release or {}).items():
        print(f"{name}: {value}")
