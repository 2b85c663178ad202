"""The commands of memattn-prepare for speech: a release by its name, and recordings of your own."""

import math
import os

from absl import flags

from memattn import cli, processes
from memattn.data.languages import known_code
from memattn.data.preparation import advice, releases
from memattn.data.tokenizer import TextSettings, Units
from memattn.errors import ConfigError
from memattn.prepare_commands.common import check_folder, check_language, define_download, define_folder, print_source


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
    _define_speech_flags()
    cli.run(_prepare_recordings, tensorflow=True, check=_check_recordings)


def mini_librispeech() -> None:
    """Runs the command `memattn-prepare mini_librispeech`."""
    define_download(releases.mini_librispeech.URL, "mini_librispeech")
    _define_speech_flags(folder="data/mini_librispeech")
    cli.run(_prepare_mini_librispeech, tensorflow=True)


def _prepare_recordings() -> int:
    """Prepares recordings with their text: log-mel features as sources, characters or BPE units as targets.

    memattn-prepare speech --train text/train.tsv --valid text/dev.tsv --test text/test.tsv --folder data/mine
    """
    check_folder(flags.FLAGS.folder)
    _prepare_speech(_manifests(), flags.FLAGS.language, flags.FLAGS.vocabulary_of)
    return 0


def _manifests() -> dict[str, str]:
    """Returns the paths of the manifests that the flags give, by split."""
    return {split: path for split in ("train", "valid", "test") if (path := flags.FLAGS[split].value)}


def _check_recordings() -> None:
    """Raises ConfigError for a manifest that is missing, and for flags that do not fit each other."""
    options, manifests = flags.FLAGS, _manifests()
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


def _prepare_mini_librispeech() -> int:
    """Downloads Mini LibriSpeech (www.openslr.org/31), and prepares it. The license is CC BY 4.0.

    memattn-prepare mini_librispeech
    """
    check_folder(flags.FLAGS.folder)
    release = flags.FLAGS.base_url, flags.FLAGS.download_dir
    manifests = releases.mini_librispeech.fetch(*release)
    _prepare_speech(manifests, "en", release=releases.mini_librispeech.facts(*release))
    return 0


def _define_speech_flags(folder: str | None = None) -> None:
    """Defines the flags that all preparations of speech share. `folder` is the default of --folder; None: required."""
    define_folder(folder, "Folder of the prepared corpus.", required=folder is None)
    meaning = "Number of BPE merges of the text, and of vocabulary units (default: characters, not BPE)."
    flags.DEFINE_integer("bpe_units", None, meaning, lower_bound=1)
    meaning = "Longest recording in seconds; longer ones are skipped in training, and refused in other splits."
    flags.DEFINE_float("max_seconds", 40.0, meaning, lower_bound=0.1)
    flags.register_validator("max_seconds", math.isfinite, "must be finite")
    flags.DEFINE_integer("workers", None, "Number of threads (default: one for each CPU core).", lower_bound=1)


def _prepare_speech(
    manifests: dict[str, str],
    language: str,
    shared: str | None = None,
    release: dict[str, str | int] | None = None,
) -> None:
    """Prepares splits as the flags say, and prints the counts of each and how to train on them.

    Raises ConfigError, DataError, OSError.
    """
    from memattn.data.preparation import speech as speech_preparation  # loads TensorFlow

    options, folder = flags.FLAGS, flags.FLAGS.folder
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
