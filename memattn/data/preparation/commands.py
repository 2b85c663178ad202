"""What memattn-prepare and the recipes in data/ have in common: flags, preparation, and advice on training."""

import math
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, cast

import yaml
from absl import flags

from memattn import files, processes, shipped
from memattn.data.preparation import parallel, parsing
from memattn.data.preparation.chunks import count_lines
from memattn.data.tokenizer import TextSettings, Units, known_code
from memattn.errors import ConfigError
from memattn.plain_values import as_yaml

Release = Mapping[str, str | int]  # what a manifest says about the release that text or recordings are from

_LEARNING_FLAGS = ("bpe_units", "bpe_sample", "seed")
_UNITS_IN_WORDS: dict[Units, str] = {"bpe": "BPE units", "spelled": "words and characters"}
_LARGEST_SMALL_TEXT = 200_000  # training pairs
_SMALL = "own_text/small"
# Source and target tokens that training with own_text/small reads in a second of one core of an AMD EPYC, validations
# included: 4,086 training steps of 64 Multi30k pairs with 33.9 tokens took 2,181 to 2,403 s (results/multi30k/small).
_TOKENS_PER_SECOND = 3_900
_MEASURED_UNITS = 4_000  # BPE units of that text; each thousand more adds 7.6% of its multiply-adds


def define_text_flags(
    folder: str | None = None,
    bpe_units: int | None = None,
    max_length: int = parallel.Settings.max_length,
) -> None:
    """Defines the flags that all preparations of text share.

    Args:
      folder: default of --folder; None makes the flag required.
      bpe_units: default of --bpe_units; None chooses it by the number of training pairs.
      max_length: default of --max_length.
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
    defaults = parallel.Settings
    meaning = "Upper bound on the pairs that BPE is learned from."
    flags.DEFINE_integer("bpe_sample", defaults.bpe_sample, meaning, lower_bound=1)
    flags.DEFINE_integer(
        "max_length",
        max_length,
        "Upper bound on the units of either side; longer training pairs are dropped.",
        lower_bound=1,
    )
    flags.DEFINE_integer("seed", defaults.seed, "Seed of --bpe_sample.", lower_bound=0, upper_bound=2**32 - 1)
    flags.DEFINE_integer("workers", None, "Number of processes (default: one for each CPU core).", lower_bound=1)


def define_parsing_flags(folder: str | None = None) -> None:
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
      release: what the manifest says about the release that the text is from; it is printed.

    Returns the number of training pairs read. Raises ConfigError, DataError, OSError.
    """
    folder = options.folder.replace("{pair}", f"{text.source_language}-{text.target_language}")
    learning = {name: None if options.vocabulary_of else options[name].value for name in _LEARNING_FLAGS}
    if options.vocabulary_of:
        check_unused(options, _LEARNING_FLAGS, "the BPE")
    elif learning["bpe_units"] is None:
        learning["bpe_units"] = parallel.default_units(count_lines(splits["train"][0]))
    settings = parallel.Settings(text=text, max_length=options.max_length, **learning)
    workers = options.workers or processes.cores()
    manifest = parallel.prepare(splits, settings, folder, workers, options.vocabulary_of, release)
    train = manifest["counts"]["train"]
    print(
        f"{folder}: {train['pairs']:,} training pairs of {train['read']:,} "
        f"({train['dropped_empty']:,} empty and {train['dropped_too_long']:,} of more than {options.max_length:,} "
        "units dropped), "
        f"{train['source_tokens']:,} source and {train['target_tokens']:,} target tokens"
        + (f", {settings.bpe_units:,} {_UNITS_IN_WORDS[text.units]}" if settings.bpe_units else "")
    )
    config = config or own_text_config(train["pairs"], gpu=has_gpu())
    tokens = train["source_tokens"] + train["target_tokens"]
    if time := training_time(config, train["pairs"], tokens, settings.bpe_units):
        print(time)
    print(training_command(config, folder, validation_changes(config, train["pairs"])))
    _print_release(release)
    return train["read"]


def prepare_trees(splits: dict[str, list[str]], min_count: int, folder: str) -> None:
    """Prepares trees as `parsing.prepare` does, and prints counts and how to train on them.

    Raises ConfigError, DataError, RunError, OSError.
    """
    train = parsing.prepare(splits, min_count, folder)["counts"]["train"]
    print(
        f"{folder}: {train['pairs']:,} training trees, {train['source_tokens']:,} words, "
        f"{train['target_tokens']:,} target tokens"
    )
    print(training_command("parsing/small", folder))


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
      folder: where the corpus goes.
      manifests: the manifest of each split.
      language: code of the language.
      vocabulary_of: a prepared corpus whose vocabulary and statistics are used; None learns them.
      release: what the manifest says about the release that the recordings are from.

    Raises ConfigError, DataError, OSError.
    """
    from memattn.data.preparation import speech  # loads TensorFlow

    text = TextSettings("untokenized", "", known_code(language), "bpe" if options.bpe_units else "spelled")
    settings = speech.Settings(text, options.bpe_units, options.max_seconds)
    was_complete = os.path.exists(folder)
    workers = options.workers or processes.cores()
    manifest = speech.prepare(manifests, settings, folder, workers, vocabulary_of, release)
    if was_complete:  # the manifests are those of the corpus, but the recordings may have changed
        print(f"{folder}: complete, and left as it is, even if recordings have changed; to make it anew, remove it")
    for split, counts in manifest["counts"].items():
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
        print(training_command("speech/small", folder))
    _print_release(release)


def check_unused(options: flags.FlagValues, names: tuple[str, ...], what: str) -> None:
    """Raises ConfigError if flags are given whose values --vocabulary_of gives."""
    if unused := [f"--{name}" for name in names if options[name].present]:
        raise ConfigError(f"{', '.join(unused)}: without effect, because --vocabulary_of gives {what}")


def define_folder(default: str | None, meaning: str = "Folder of the prepared corpus.") -> None:
    """Defines --folder, which is required if it has no default."""
    flags.DEFINE_string("folder", default, meaning, required=default is None)
    flags.register_validator("folder", lambda folder: folder != "", "is empty")


def _print_release(release: Release | None) -> None:
    """Prints what is known of a release, such as where its files are from, and their license."""
    for name, value in (release or {}).items():
        print(f"{name}: {value}")


def training_command(config: str, folder: str, changes: Sequence[str] = ()) -> str:
    """Returns a line with the command that trains a shipped config on a prepared folder, with overrides."""
    run_dir = os.path.join("runs", os.path.basename(os.path.normpath(folder)))
    overrides = " ".join(f"--set {shlex.quote(change)}" for change in (f"data.folder={as_yaml(folder)}", *changes))
    return f"to train on it: memattn-train --config {config} {overrides} --run_dir {shlex.quote(run_dir)}"


def has_gpu() -> bool:
    """Returns whether this machine has an NVIDIA driver, without the seconds that importing TensorFlow takes."""
    return shutil.which("nvidia-smi") is not None


def own_text_config(pairs: int, *, gpu: bool) -> str:
    """Returns the name of the shipped config that suits so many training pairs; own_text/base takes days on CPUs."""
    return "own_text/base" if gpu and pairs > _LARGEST_SMALL_TEXT else _SMALL


def training_time(config: str, pairs: int, tokens: int, units: int | None) -> str | None:
    """Returns a line with an estimate of the longest that training on a text takes; None where none was measured.

    Args:
      config: name of the shipped config.
      pairs: training pairs.
      tokens: source and target tokens of these pairs.
      units: number of BPE units, if known.
    """
    if config != _SMALL or not pairs:
        return None
    training = _small_training()
    slower = 1 + 0.076 * ((units or _MEASURED_UNITS) - _MEASURED_UNITS) / 1000
    read = training["max_steps"] * training["batch_size"] * tokens / pairs
    hours = slower * read / _TOKENS_PER_SECOND / 3600
    line = f"training takes at most about {max(hours, 0.1):.1f} hours of one CPU core, less if BLEU stops rising"
    return line + ("; for a GPU, take own_text/base" if pairs > _LARGEST_SMALL_TEXT else "")


def validation_changes(config: str, pairs: int) -> list[str]:
    """Returns overrides so that own_text/small validates once an epoch, where its validations are far more frequent.

    A training has at least five, even if it is shorter than five epochs. They count: after a few without a better
    score, the learning rate falls and training ends. Other configs, which are for large text, stay as they are.
    """
    if config != _SMALL:
        return []
    training = _small_training()
    steps = min(pairs // training["batch_size"], training["max_steps"] // 5)
    if steps < 2 * training["validate_every"]:
        return []
    return [f"training.validate_every={steps}", f"training.checkpoint_every={steps}"]


def _small_training() -> dict[str, Any]:
    """Returns `training` of own_text/small as it is written. Does not import TensorFlow."""
    return yaml.safe_load(files.read_text(cast(str, shipped.path_of(_SMALL))))["training"]
