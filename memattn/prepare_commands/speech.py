"""The command `memattn-prepare speech`."""

import math
import os

from absl import flags

from memattn import cli, processes
from memattn.data.languages import known_code
from memattn.data.preparation import advice
from memattn.data.tokenizer import TextSettings, Units
from memattn.errors import ConfigError
from memattn.prepare_commands.common import check_folder, check_language, define_folder, print_source


def speech() -> None:
    """Runs the command `memattn-prepare speech`."""
    needed = "needed unless --vocabulary_of is given"
    for split, required in (("train", needed), ("valid", needed), ("test", "")):
        meaning = f"Manifest of the {split} split: lines of audio file, tab, text; or .jsonl with audio and text"
        flags.DEFINE_string(split, None, f"{meaning}; {required}." if required else f"{meaning}.")
    flags.DEFINE_string("language", "en", "Code of the language, such as de.")
    flags.DEFINE_string(
        "vocabulary_of",
        None,
        "Prepared corpus of speech whose units, vocabulary, and mean and variance of features are used.",
    )
    define_speech_flags()
    cli.run(_prepare_recordings, tensorflow=True, check=_check_recordings)


def _prepare_recordings() -> int:
    """Prepares recordings with their text: log-mel features as sources, characters or BPE units as targets.

    memattn-prepare speech --train text/train.tsv --valid text/dev.tsv --test text/test.tsv --folder data/mine
    """
    options = flags.FLAGS
    prepare_speech(options, options.folder, _manifests(options), options.language, options.vocabulary_of)
    return 0


def _manifests(options: flags.FlagValues) -> dict[str, str]:
    """Returns the paths of the manifests that the flags give, by split."""
    return {split: path for split in ("train", "valid", "test") if (path := getattr(options, split))}


def _check_recordings() -> None:
    """Raises ConfigError for a manifest that is missing, and for flags that do not fit each other."""
    options, manifests = flags.FLAGS, _manifests(flags.FLAGS)
    if not options.vocabulary_of and (missing := [split for split in ("train", "valid") if split not in manifests]):
        raise ConfigError(f"--{missing[0]}: give a manifest, or --vocabulary_of a corpus that is prepared already")
    if not manifests:
        raise ConfigError("--train, --valid, --test: give one or more")
    unused = [f"--{name}" for name in ("bpe_units", "language") if options[name].present]
    if options.vocabulary_of and unused:
        raise ConfigError(f"{', '.join(unused)}: without effect, because --vocabulary_of gives units and language")
    check_language("language", options.language)
    for path in manifests.values():
        if not os.path.isfile(path):
            raise ConfigError(f"{path}: no such file")


def define_speech_flags(folder: str | None = None) -> None:
    """Defines the flags that all preparations of speech share. `folder` is the default of --folder; None: required."""
    define_folder(folder, "Folder of the prepared corpus.", required=folder is None)
    meaning = "Number of BPE merges of the text, and of vocabulary units (default: characters, not BPE)."
    flags.DEFINE_integer("bpe_units", None, meaning, lower_bound=1)
    meaning = "Longest recording in seconds; longer ones are skipped in training, and refused in other splits."
    flags.DEFINE_float("max_seconds", 40.0, meaning, lower_bound=0.1)
    flags.register_validator("max_seconds", math.isfinite, "must be finite")
    flags.DEFINE_integer("workers", None, "Number of threads (default: one for each CPU core).", lower_bound=1)


def prepare_speech(
    options: flags.FlagValues,
    folder: str,
    manifests: dict[str, str],
    language: str,
    shared: str | None = None,
    release: dict[str, str | int] | None = None,
) -> None:
    """Prepares splits, and prints the counts of each and how to train on them.

    Args:
      options: flags that `define_speech_flags` defines.
      folder: where the corpus goes.
      manifests: the manifest of each split.
      language: code of the language.
      shared: a prepared corpus whose vocabulary and statistics are used; None learns them.
      release: what the manifest says about the release that the recordings are from.

    Raises ConfigError, DataError, OSError.
    """
    from memattn.data.preparation import speech as speech_preparation  # loads TensorFlow

    check_folder(folder)
    units: Units = "bpe" if options.bpe_units else "spelled"
    text = TextSettings("untokenized", "", known_code(language), units)
    settings = speech_preparation.Settings(text, options.bpe_units, options.max_seconds)
    was_complete = os.path.exists(folder)
    manifest = speech_preparation.prepare(
        manifests, settings, folder, options.workers or processes.cores(), shared, release
    )
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
        print(advice.training("speech/small", folder))
    print_source(release)
