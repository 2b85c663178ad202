"""Prepares a corpus to train on.

copy        the paper's copy task
wmt17       a language pair of WMT'17, downloaded
multi30k    Multi30k's English and German captions, downloaded
tatoeba     Tatoeba's English sentences with translations, downloaded
iwslt17     TED talks of IWSLT 2017, downloaded
parallel    parallel text of your own
parsing     constituency trees of your own, such as the Penn Treebank
speech      recordings of your own with their text
mini_librispeech   five hours of English audiobooks with their text, downloaded
lexicon     likely translations of each token, from a prepared corpus

memattn-prepare copy --help
"""

import memattn.cli as cli  # isort: skip (one way for all commands)

import math
import os
import re
import warnings
from collections.abc import Mapping
from typing import get_args

from absl import flags

from memattn import processes
from memattn.config import CopyConfig
from memattn.data import corpus, task_corpus
from memattn.data import lexicon as lexicons
from memattn.data.preparation import advice, releases
from memattn.data.preparation import parallel as text_preparation
from memattn.data.preparation import parsing as tree_preparation
from memattn.data.preparation.chunks import count_lines
from memattn.data.preparation.learning import default_units
from memattn.data.tokenizer import Form, TextSettings, Units, has_moses_rules, moses_language
from memattn.errors import ConfigError

_LEARNING_FLAGS = ("bpe_units", "bpe_sample", "seed")
PAPER_LENGTHS = ["20", "50", "100", "200"]
_LARGEST_INT = 2**31 - 1
_UNITS_IN_WORDS: dict[Units, str] = {"bpe": "BPE units", "spelled": "words and characters"}
_LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")


def copy() -> None:
    """Runs the command `memattn-prepare copy`."""
    flags.DEFINE_list("max_length", PAPER_LENGTHS, "Longest source, in symbols; several are separated by commas.")
    for name, meaning, least in (
        ("num_symbols", "Number of symbols.", 1),
        ("train_examples", "Training pairs.", 1),
        ("valid_examples", "Validation pairs.", 1),
        ("seed", "Seed of symbols and lengths.", 0),
    ):
        default = getattr(CopyConfig, name)
        flags.DEFINE_integer(name, default, meaning, lower_bound=least, upper_bound=_LARGEST_INT)
    _define_folder(None, "Folder of the corpus; by default under data/, named after the settings.")
    cli.run(_write_copy_corpora)


def wmt17() -> None:
    """Runs the command `memattn-prepare wmt17`."""
    flags.DEFINE_enum("pair", None, list(releases.wmt17.VALIDATION), "Source and target language.", required=True)
    flags.DEFINE_string("base_url", releases.wmt17.URL, "Address of the release, which has a folder for each pair.")
    flags.DEFINE_string("download_dir", "data/downloads/wmt17", "Folder of the downloaded files.")
    _define_text_flags(folder="data/wmt17.{pair}", bpe_units=16_000)
    cli.run(_prepare_wmt17)


def multi30k() -> None:
    """Runs the command `memattn-prepare multi30k`."""
    flags.DEFINE_string("base_url", releases.multi30k.URL, "Address of the release.")
    flags.DEFINE_string("download_dir", "data/downloads/multi30k", "Folder of the downloaded files.")
    _define_text_flags(folder="data/multi30k.en-de", bpe_units=4_000)
    cli.run(_prepare_multi30k)


def tatoeba() -> None:
    """Runs the command `memattn-prepare tatoeba`."""
    flags.DEFINE_string("language", None, "Target language, by a code of three letters such as deu.", required=True)
    flags.DEFINE_string("base_url", releases.tatoeba.URL, "Address of the release, which has a file for each language.")
    flags.DEFINE_string("download_dir", "data/downloads/tatoeba", "Folder of the downloaded files.")
    _define_text_flags(folder="data/tatoeba.{pair}", bpe_units=8_000)
    cli.run(_prepare_tatoeba)


def iwslt17() -> None:
    """Runs the command `memattn-prepare iwslt17`."""
    flags.DEFINE_enum("pair", "en-de", list(releases.iwslt17.SHA256), "Source and target language.")
    flags.DEFINE_string("base_url", releases.iwslt17.URL, "Address of the release, which has a folder for each pair.")
    flags.DEFINE_string("download_dir", "data/downloads/iwslt17", "Folder of the downloaded files.")
    _define_text_flags(folder="data/iwslt17.{pair}", bpe_units=8_000)
    cli.run(_prepare_iwslt17)


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
    _define_text_flags()
    cli.run(_prepare_parallel)


def parsing() -> None:
    """Runs the command `memattn-prepare parsing`."""
    names = "file or pattern of files, such as 'wsj/0[2-9]/*.mrg'; several are separated by commas."
    flags.DEFINE_list("train", None, f"Training trees: {names}", required=True)
    flags.DEFINE_list("valid", None, f"Validation trees: {names}", required=True)
    flags.DEFINE_list("test", None, f"Test trees: {names}")
    _define_folder(None, "Folder of the prepared corpus.", required=True)
    meaning = "Least number of occurrences in training of a word of the vocabulary."
    flags.DEFINE_integer("min_count", 2, meaning, lower_bound=1)
    cli.run(_prepare_parsing)


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
    flags.DEFINE_string("base_url", releases.mini_librispeech.URL, "Address of the release.")
    folder = "data/downloads/mini_librispeech"
    flags.DEFINE_string("download_dir", folder, "Folder of the downloaded files.")
    _define_speech_flags(folder="data/mini_librispeech")
    cli.run(_prepare_mini_librispeech, tensorflow=True)


def lexicon() -> None:
    """Runs the command `memattn-prepare lexicon`."""
    _define_folder(None, "Folder of a prepared corpus; the lexicon is written into it.", required=True)
    flags.DEFINE_integer("size", 200, "Upper bound on the translations of each token.", lower_bound=1)
    cli.run(_learn_lexicon)


def _write_copy_corpora() -> int:
    """Writes the copy task's corpora (section 4.1 of the paper): the paper's four by default.

    memattn-prepare copy
    memattn-prepare copy --max_length 30 --num_symbols 50 --train_examples 10000 --folder data/my_copy
    """
    options = flags.FLAGS
    if not options.max_length:
        raise ConfigError("--max_length: empty; give one or more")
    if options.folder and len(options.max_length) > 1:
        raise ConfigError("--folder: one folder holds one corpus: give one --max_length")
    for length in options.max_length:
        if not length.isdecimal() or not 1 <= int(length) <= _LARGEST_INT:
            raise ConfigError(f"--max_length: {length!r} is not an int of at least 1 that fits 32 bits")
        config = CopyConfig(
            max_length=int(length),
            num_symbols=options.num_symbols,
            train_examples=options.train_examples,
            valid_examples=options.valid_examples,
            seed=options.seed,
        )
        folder = options.folder or config.folder
        task_corpus.prepare(config, folder)
        print(folder)
    return 0


def _prepare_wmt17() -> int:
    """Downloads a language pair of WMT'17 (section 4.2 of the paper), preprocessed by its organisers; prepares it.

    memattn-prepare wmt17 --pair en-de
    """
    options = flags.FLAGS
    splits = releases.wmt17.fetch(options.pair, options.base_url, options.download_dir)
    read = _prepare_text(splits, "truecased", *options.pair.split("-"), config=f"wmt17/{options.pair}")
    if problem := releases.wmt17.problem(options.pair, read):
        warnings.warn(problem, stacklevel=1)
    return 0


def _prepare_multi30k() -> int:
    """Downloads Multi30k's English and German captions (Elliott et al., 2016) and prepares them.

    memattn-prepare multi30k
    """
    splits = releases.multi30k.fetch(flags.FLAGS.base_url, flags.FLAGS.download_dir)
    _prepare_text(splits, "raw", "en", "de", config="multi30k/seeds")
    return 0


def _prepare_tatoeba() -> int:
    """Downloads English sentences of tatoeba.org with translations (manythings.org/anki, CC BY 2.0 FR); prepares them.

    memattn-prepare tatoeba --language deu
    """
    options = flags.FLAGS
    release = options.language, options.base_url, options.download_dir
    language = _language_of_tatoeba(options.language)
    splits = releases.tatoeba.fetch(*release)
    _prepare_text(splits, "raw", "en", language, release=releases.tatoeba.facts(*release))
    return 0


def _prepare_iwslt17() -> int:
    """Downloads transcripts of TED talks with translations, as IWSLT 2017 has them (CC BY-NC-ND 4.0); prepares them.

    memattn-prepare iwslt17
    memattn-prepare iwslt17 --pair fr-en
    """
    options = flags.FLAGS
    release = options.pair, options.base_url, options.download_dir
    splits = releases.iwslt17.fetch(*release)
    _prepare_text(splits, "raw", *options.pair.split("-"), release=releases.iwslt17.facts(*release))
    return 0


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
    languages = (_language(side, options.form) for side in corpus.SIDES)
    _prepare_text(splits, options.form, *languages, units=options.units)
    return 0


def _prepare_parsing() -> int:
    """Prepares constituency trees: the sources are words, the targets brackets, as in Vinyals et al. (2015).

    memattn-prepare parsing --train 'wsj/0[2-9]/*.mrg,wsj/1?/*.mrg,wsj/2[01]/*.mrg' --valid 'wsj/22/*.mrg' \\
        --test 'wsj/23/*.mrg' --folder data/wsj.trees
    """
    options = flags.FLAGS
    splits = {"train": options.train, "valid": options.valid, "test": options.test}
    for split, names in splits.items():
        if names is not None and not (names and all(names)):
            raise ConfigError(f"--{split}: an empty name; give files, separated by commas")
    trees = {split: names for split, names in splits.items() if names}
    manifest = tree_preparation.prepare(trees, options.min_count, options.folder)
    train = manifest["counts"]["train"]
    print(
        f"{options.folder}: {train['pairs']:,} training trees, {train['source_tokens']:,} words, "
        f"{train['target_tokens']:,} target tokens"
    )
    print(advice.training("parsing/small", options.folder))
    return 0


def _prepare_recordings() -> int:
    """Prepares recordings with their text: log-mel features as sources, characters or BPE units as targets.

    memattn-prepare speech --train text/train.tsv --valid text/dev.tsv --test text/test.tsv --folder data/mine
    """
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
    _check_language("language", options.language)
    for path in manifests.values():
        if not os.path.isfile(path):
            raise ConfigError(f"{path}: no such file")


def _prepare_mini_librispeech() -> int:
    """Downloads Mini LibriSpeech (www.openslr.org/31), and prepares it. The license is CC BY 4.0.

    memattn-prepare mini_librispeech
    """
    release = flags.FLAGS.base_url, flags.FLAGS.download_dir
    manifests = releases.mini_librispeech.fetch(*release)
    _prepare_speech(manifests, "en", release=releases.mini_librispeech.facts(*release))
    return 0


def _learn_lexicon() -> int:
    """Learns a lexicon from a prepared corpus, for vocabulary selection (decoding.lexicon).

    memattn-prepare lexicon --folder data/multi30k.en-de
    """
    folder = flags.FLAGS.folder
    print(lexicons.write(folder, corpus.read_vocabulary(os.path.join(folder, corpus.VOCABULARY)), flags.FLAGS.size))
    return 0


def _language_of_tatoeba(code: str) -> str:
    """Returns the tokenizer's code of a language of the release; warns if Moses has no rules. Raises ConfigError."""
    if not re.fullmatch("[a-z]{3}", code) or code == "eng":
        codes = {language: code for code, language in releases.tatoeba.LANGUAGES.items()}
        right = codes.get(moses_language(code), "deu or fra")
        raise ConfigError(f"--language: {code!r} is not the code of a target language; it has three letters: {right}")
    language = releases.tatoeba.LANGUAGES.get(code, code)
    _warn_without_rules("language", language)
    return language


def _warn_without_rules(flag: str, language: str, advice: str = "") -> None:
    """Warns if Moses has no rules for the language that a flag gives."""
    if not has_moses_rules(language):
        warnings.warn(
            f"--{flag}: Moses has no rules for {language!r}, and those of English are used{advice}", stacklevel=3
        )


def _check_language(flag: str, code: str) -> None:
    """Raises ConfigError if the value of a flag is not the code of a language."""
    if not _LANGUAGE_CODE.fullmatch(code):
        raise ConfigError(f"--{flag}: {code!r} is not the code of a language, such as de, zh or pt-BR")


def _language(side: str, form: Form) -> str:
    """Returns the language of a side by its code in Moses; warns if Moses has no rules for it. Raises ConfigError."""
    options = flags.FLAGS.flag_values_dict()
    code = options[f"{side}_language"]
    if code is not None:
        _check_language(f"{side}_language", code)
    language = moses_language(options[side] if code is None else code)
    if form != "untokenized":
        advice = "; if this is not the code of the language, such as de, ko or pt-BR, give it"
        _warn_without_rules(f"{side}_language", language, advice)
    return language


def _existing(path: str) -> str:
    """Returns the path of a file, or of its .gz. Raises ConfigError if there is neither."""
    for candidate in (path, f"{path}.gz"):
        if os.path.exists(candidate):
            return candidate
    raise ConfigError(f"{path}: neither this file nor {path}.gz is there")


def _define_folder(default: str | None, meaning: str, *, required: bool = False) -> None:
    flags.DEFINE_string("folder", default, meaning, required=required)
    flags.register_validator("folder", lambda folder: folder != "", "is empty")


def _define_text_flags(folder: str | None = None, bpe_units: int | None = None) -> None:
    """Defines the flags that all preparations of text share.

    Args:
      folder: default of --folder; None makes the flag required.
      bpe_units: default of --bpe_units; None chooses it by the number of training pairs.
    """
    _define_folder(folder, "Folder of the prepared corpus.", required=folder is None)
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
        defaults.max_length,
        "Upper bound on the units of either side; longer training pairs are dropped. The end of sentence is no unit "
        "here, but data.max_source_length counts it.",
        lower_bound=1,
    )
    flags.DEFINE_integer("seed", defaults.seed, "Seed of --bpe_sample.", lower_bound=0, upper_bound=2**32 - 1)
    flags.DEFINE_integer("workers", None, "Number of processes (default: one for each CPU core).", lower_bound=1)


def _define_speech_flags(folder: str | None = None) -> None:
    """Defines the flags that all preparations of speech share. `folder` is the default of --folder; None: required."""
    _define_folder(folder, "Folder of the prepared corpus.", required=folder is None)
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
    text = TextSettings("untokenized", "", moses_language(language), units)
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
    _print_source(release)


def _prepare_text(
    splits: dict[str, tuple[str, str]],
    form: Form,
    source_language: str,
    target_language: str,
    *,
    units: Units = "bpe",
    config: str | None = None,
    release: dict[str, str | int] | None = None,
) -> int:
    """Prepares splits as the flags say, and prints the counts of the training split and how to train on it.

    In --folder, `{pair}` stands for the languages. `config` is the config to train with; None chooses one of own_text
    by the number of training pairs. `release` goes into the manifest, and is printed.

    Returns the number of training pairs read. Raises ConfigError, DataError, OSError.
    """
    options = flags.FLAGS
    folder = options.folder.replace("{pair}", f"{source_language}-{target_language}")
    learning = {name: options[name].value for name in _LEARNING_FLAGS}
    if options.vocabulary_of:
        if unused := [f"--{name}" for name in _LEARNING_FLAGS if options[name].present]:
            raise ConfigError(f"{', '.join(unused)}: without effect, because --vocabulary_of gives the BPE")
        learning = dict.fromkeys(learning)
    elif learning["bpe_units"] is None:
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
    own_text = advice.own_text_config(train["pairs"])
    changes = [] if config else advice.validation_changes(own_text, train["pairs"])
    print(advice.training(config or own_text, folder, changes))
    _print_source(release)
    return train["read"]


def _print_source(release: Mapping[str, str | int] | None) -> None:
    """Prints where the files of a release are from, and their license."""
    if release:
        print("{url}: {license}, {attribution}; SHA-256 {sha256}".format(**release))


COMMANDS = {
    "copy": copy,
    "wmt17": wmt17,
    "multi30k": multi30k,
    "tatoeba": tatoeba,
    "iwslt17": iwslt17,
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
