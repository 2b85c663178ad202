"""Preparation of parallel text: faults during preparation, and the prepared corpus."""

import concurrent.futures
import dataclasses
import gzip
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.files import contents
from helpers.repository import ROOT
from helpers.texts import SETTINGS, sentences

from memattn import processes
from memattn.data import corpus
from memattn.data import tokenizer as tokenizers
from memattn.data.batches import TrainingBatches
from memattn.data.preparation import chunks, parallel
from memattn.data.preparation.parallel import Settings
from memattn.data.tokenizer import TextSettings
from memattn.errors import ConfigError, DataError, RunError
from memattn.files import read_lines

pytestmark = pytest.mark.slow


@pytest.fixture
def run(command, tmp_path):
    """run(arguments...) runs `memattn-prepare arguments`; returns the completed process."""
    return lambda *arguments, **options: command(tmp_path, "memattn.prepare", *arguments, **options)


def without_commands(folder):
    """The bytes of the files of a prepared corpus; of the manifest, the entries that do not depend on the command."""
    files = contents(folder)
    manifest = json.loads(files.pop(corpus.MANIFEST))
    for side in manifest["sources"].values():
        for source in side:
            del source["path"]
    return {**files, corpus.MANIFEST: {key: manifest[key] for key in ("settings", "sources", "counts", "files")}}


def decoded(folder, split="train"):
    """The lines of both sides of a split, decoded from its ids."""
    vocabulary = corpus.read_vocabulary(folder)
    processor, pairs = tokenizers.read(str(folder)), corpus.read_corpus(str(folder), split, vocabulary)
    return [
        processor.decode(vocabulary.decode(side[i]) for i in range(len(side))) for side in (pairs.source, pairs.target)
    ]


@pytest.fixture
def files(tmp_path):
    """Paths of raw parallel text of three splits; some training pairs are empty or too long."""
    splits = {}
    for split, number in (("train", 90), ("valid", 8), ("test", 9)):
        sides = [sentences(number, f"{split}{side}") for side in range(2)]
        if split == "train":
            sides[0][3], sides[1][40], sides[0][60] = "", " \t ", "Haus " * 300
            sides[0][5] = "\x01\x02"  # tokenization empties it
            sides[1][7] = "Haus\u2028Hund\u00a0Stadt, alt."
        splits[split] = tuple(str(tmp_path / f"{split}.{side}") for side in ("en", "de"))
        for path, lines in zip(splits[split], sides, strict=True):
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{line}\r\n" for line in lines)
    return splits


@pytest.fixture
def prepared(files, tmp_path):
    """The folder of a corpus that was prepared from the files."""
    parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)
    return tmp_path / "out"


@pytest.mark.parametrize("units", tokenizers.UNITS)
def test_a_prepared_corpus_holds_the_pairs_of_the_text(files, tmp_path, units):
    settings = dataclasses.replace(SETTINGS, text=dataclasses.replace(SETTINGS.text, units=units), max_length=299)
    counts = parallel.prepare(files, settings, str(tmp_path / "out"), 1)["train"]
    assert (counts["read"], counts["pairs"], counts["dropped_empty"], counts["dropped_too_long"]) == (90, 86, 3, 1)
    lines = [read_lines(path) for path in files["train"]]
    processor = tokenizers.read(str(tmp_path / "out"))
    kept = [i for i in range(90) if i not in (3, 5, 40, 60)]
    for side, decoded_lines, original in zip(corpus.SIDES, decoded(tmp_path / "out"), lines, strict=True):
        expected = processor.decode(processor.encode(original[i], side) for i in kept)
        assert len(decoded_lines) == len(expected)
        is_different = [line != expected_line for line, expected_line in zip(decoded_lines, expected, strict=True)]
        assert sum(is_different) <= 1  # the line with odd white space
    assert read_lines(str(tmp_path / "out" / "test.reference")) == read_lines(files["test"][1])
    vocabulary = corpus.read_vocabulary(str(tmp_path / "out"))
    source = corpus.read_corpus(str(tmp_path / "out"), "train", vocabulary).source
    assert isinstance(source.ids, np.memmap)
    assert source.ids.dtype == np.uint16
    assert (counts["source_tokens"], counts["longest_source"]) == (source.offsets[-1], source.lengths().max())


def test_a_pair_may_have_exactly_as_many_units_as_max_length(files, tmp_path):
    def counts(max_length):
        settings = dataclasses.replace(SETTINGS, max_length=max_length)
        return parallel.prepare(files, settings, str(tmp_path / str(max_length)), 1)["train"]

    longest = max(counts(200)[f"longest_{side}"] for side in corpus.SIDES) - 1  # without the end of sentence
    assert counts(longest)["dropped_too_long"] == counts(200)["dropped_too_long"]
    assert counts(longest - 1)["dropped_too_long"] > counts(200)["dropped_too_long"]


def test_a_corpus_does_not_depend_on_processes_or_compression(files, tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", 20)
    parallel.prepare(files, SETTINGS, str(tmp_path / "plain"), 1)
    zipped = {}
    for split, paths in files.items():
        zipped[split] = tuple(f"{path}.gz" for path in paths)
        for path in paths:
            with open(path, "rb") as file, gzip.open(f"{path}.gz", "wb") as compressed:
                compressed.write(file.read())
    parallel.prepare(zipped, SETTINGS, str(tmp_path / "zipped"), 3)
    from_plain, from_zipped = without_commands(tmp_path / "plain"), without_commands(tmp_path / "zipped")
    for corpus_files in (from_plain, from_zipped):
        corpus_files[corpus.MANIFEST].pop("sources")
    assert from_plain == from_zipped


@pytest.mark.parametrize("written", ["train.target.ids.npy", corpus.MANIFEST])
def test_an_interrupted_preparation_leaves_no_folder_and_can_be_repeated(
    files, prepared, tmp_path, monkeypatch, written
):
    rename, before = os.replace, set(os.listdir(tmp_path))

    def interrupt(path, *arguments):
        if any(os.path.exists(os.path.join(folder, written)) for folder in (path, os.path.dirname(path))):
            raise KeyboardInterrupt
        rename(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            parallel.prepare(files, SETTINGS, str(tmp_path / "again"), 1)
    assert set(os.listdir(tmp_path)) == before
    parallel.prepare(files, SETTINGS, str(tmp_path / "again"), 1)
    assert without_commands(tmp_path / "again") == without_commands(prepared)


def test_a_second_preparation_of_a_folder_is_refused(files, tmp_path, monkeypatch):
    folder, segment, refused = str(tmp_path / "out"), parallel.segment, []

    def prepare_again_and_segment(*arguments):
        with pytest.raises(RunError, match="out: process .*--folder"):
            parallel.prepare(files, SETTINGS, folder, 1)
        refused.append(True)
        return segment(*arguments)

    monkeypatch.setattr(parallel, "segment", prepare_again_and_segment)
    parallel.prepare(files, SETTINGS, folder, 1)
    assert len(refused) == 2
    assert not [name for name in os.listdir(tmp_path) if name.endswith((".lock", ".unfinished"))]


def test_a_corpus_that_another_process_completes_before_the_lock_is_used(files, tmp_path, monkeypatch):
    folder, locked, first = str(tmp_path / "out"), processes.locked, []

    def complete_and_lock(*arguments):
        monkeypatch.setattr(processes, "locked", locked)
        first.append(parallel.prepare(files, SETTINGS, folder, 1))
        return locked(*arguments)

    monkeypatch.setattr(processes, "locked", complete_and_lock)
    assert [parallel.prepare(files, SETTINGS, folder, 1)] == first


@pytest.mark.parametrize("manifest", [None, "{}"])
def test_an_unrelated_folder_is_left_alone(files, tmp_path, manifest):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear")
    if manifest:
        (tmp_path / "mine" / corpus.MANIFEST).write_text(manifest)
    before = contents(tmp_path / "mine")
    with pytest.raises(ConfigError, match="mine: exists, but is not a prepared corpus"):
        parallel.prepare(files, SETTINGS, str(tmp_path / "mine"), 1)
    assert contents(tmp_path / "mine") == before


def test_other_settings_or_files_are_refused_for_a_complete_corpus(files, prepared):
    before = contents(prepared)
    with pytest.raises(ConfigError, match=r"bpe_units \(\d+ there, 50 here\)"):
        parallel.prepare(files, Settings(SETTINGS.text, bpe_units=50), str(prepared), 1)
    with open(files["valid"][0], "a", encoding="utf-8") as file:
        file.write("\n")
    with pytest.raises(ConfigError, match=r"holds another corpus \(other files\)"):
        parallel.prepare(files, SETTINGS, str(prepared), 1)
    assert contents(prepared) == before


@pytest.mark.parametrize("units", tokenizers.UNITS)
def test_the_vocabulary_of_another_corpus_is_used(files, tmp_path, monkeypatch, units):
    text = dataclasses.replace(SETTINGS.text, units=units)
    parallel.prepare(files, dataclasses.replace(SETTINGS, text=text), str(tmp_path / "first"), 1)
    others = {split: tuple(str(tmp_path / f"other.{split}.{side}") for side in ("en", "de")) for split in files}
    for split, paths in others.items():
        for path in paths:
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{line} Zyklop\n" for line in sentences(20, f"{split}{path[-2:]}"))
    folder, shared = str(tmp_path / "second"), str(tmp_path / "first")
    monkeypatch.setattr(tokenizers.UNITS[units], "learn", lambda *_: pytest.fail("learned"))
    settings = Settings(text, None)
    counts = parallel.prepare(others, settings, folder, 1, shared)
    before = contents(tmp_path / "second")
    manifest = json.loads(before[corpus.MANIFEST])
    names = [os.path.basename(source["path"]) for source in manifest["sources"]["vocabulary_of"]]
    assert names == [tokenizers.UNITS[units].file, "vocab.txt"]
    for name in names:
        assert before[name] == contents(tmp_path / "first")[name]
    sides = [read_lines(path) for path in others["train"]]
    for decoded_lines, lines in zip(decoded(tmp_path / "second"), sides, strict=True):
        assert len(decoded_lines) == len(lines) == 20
    assert parallel.prepare(others, settings, folder, 1, shared) == counts
    assert contents(tmp_path / "second") == before
    with pytest.raises(ConfigError, match="second: holds another corpus"):
        parallel.prepare(others, SETTINGS, folder, 1)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("out", "raw en de.*tokenized en de"),
        ("", "its text is unprepared, not tokenized en de"),
        ("nowhere", "no such folder"),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_refused(files, prepared, tmp_path, name, problem):
    tokenized = Settings(TextSettings("tokenized", "en", "de"), None)
    with pytest.raises(ConfigError, match=f"--vocabulary_of .*{name}: .*{problem}"):
        parallel.prepare(files, tokenized, str(tmp_path / "second"), 1, str(prepared.parent / name))
    assert not (tmp_path / "second").exists()


def test_workers_end_with_their_parent():
    code = (
        "import multiprocessing, time\nfrom memattn.data.preparation.chunks import map_in_processes\n"
        "with map_in_processes(2) as mapped:\n"
        "    assert list(mapped(abs, [-1, -2])) == [1, 2]\n"
        "    print(*[worker.pid for worker in multiprocessing.active_children()], flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        workers = list(map(int, process.stdout.readline().split()))
        process.kill()
        process.wait(timeout=30)
    assert workers
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_results_of_workers_are_in_order_and_items_are_taken_as_needed():
    taken = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = chunks.map_in_order(pool, 3, str, (taken.append(i) or i for i in range(20)))
        assert next(results) == "0"
        assert len(taken) == 4
        assert list(results) == [str(i) for i in range(1, 20)]


def test_units_of_a_large_corpus_are_learned_from_a_sample(files, tmp_path, monkeypatch):
    codes = []
    for sample, name in ((30, "a"), (30, "b"), (90, "c")):
        monkeypatch.setattr(parallel, "_SAMPLE", sample)
        parallel.prepare(files, Settings(SETTINGS.text, bpe_units=60), str(tmp_path / name), 1)
        codes.append((tmp_path / name / "bpe.codes").read_text())
    assert codes[0] == codes[1] != codes[2]


def test_a_file_that_is_missing_or_there_in_two_forms_is_reported_by_the_command(files, run, tmp_path):
    prefix = files["train"][0].removesuffix(".en")
    arguments = ["--source", "en", "--target", "de", "--folder", tmp_path / "out", "--bpe_units", 50, "--workers", 1]
    missing = run("parallel", "--train", prefix, "--valid", tmp_path / "none", *arguments, may_fail=True)
    assert re.fullmatch("error: .*none.en and .*none.en.gz are both missing\n", missing.stderr)
    valid = files["valid"][0].removesuffix(".en")
    second = Path(f"{valid}.de.gz")
    second.write_bytes(gzip.compress(b"other text\n"))
    twice = run("parallel", "--train", prefix, "--valid", valid, *arguments, may_fail=True)
    assert twice.stderr == f"error: {valid}.de and {second} are both there; remove one\n"
    second.unlink()
    assert "86 training pairs of 90" in run("parallel", "--train", prefix, "--valid", valid, *arguments).stdout


def test_languages_may_differ_from_the_suffixes_of_files(run, tmp_path):
    """Suffixes of files that are no code of a language cause warnings; with the code of Korean, blanks are restored."""
    lines = [f"나는 {thing}에 갑니다." for thing in ("학교", "집", "공원", "시장", "도서관")]
    for split in ("train", "valid"):
        for end, sentence in (("src", "I go to school ."), ("tgt", None)):
            content = "".join(f"{sentence or line}\n" for line in lines)
            (tmp_path / f"{split}.{end}").write_text(content, encoding="utf-8")
    arguments = ["parallel", "--train", tmp_path / "train", "--valid", tmp_path / "valid", "--bpe_units", 30]
    arguments += ["--source=src", "--target=tgt", "--workers=1", "--source_language=EN"]

    stderr = run(*arguments, "--folder", tmp_path / "wrong").stderr
    warnings = [line for line in stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 2
    assert warnings[0].startswith("warning: --target_language: Moses has no rules for 'tgt', and those of English are ")
    assert "valid.tgt: 5 of 5 targets come back from Moses' tokenizer with other blanks" in warnings[1]

    assert "warning" not in run(*arguments, "--target_language=ko-KR", "--folder", tmp_path / "right").stderr
    right = tokenizers.read(str(tmp_path / "right"))
    assert (right.settings.source_language, right.settings.target_language) == ("en", "ko")
    assert right.detokenize(right.decode(right.encode(line, "target") for line in lines)) == lines


@pytest.mark.parametrize(
    ("name", "spoil", "problem"),
    [
        ("train.source.ids.npy", lambda path: path.write_bytes(path.read_bytes()[:-7]), "not a complete array"),
        ("train.source.offsets.npy", lambda path: np.save(path, np.zeros(3)), "not a one-dimensional array"),
        ("train.source.offsets.npy", lambda path: np.save(path, np.load(path) + 1), "does not match .*source.ids.npy"),
        ("train.target.ids.npy", lambda path: np.save(path, 9999 + np.load(path)), "it holds the id 10"),
        ("vocab.txt", lambda path: path.write_text("a\nb\n"), "vocab.txt: not the one that .*out was prepared with"),
    ],
)
def test_a_damaged_corpus_is_refused(prepared, name, spoil, problem):
    spoil(prepared / name)
    with pytest.raises(DataError, match=problem):
        pairs = corpus.read_corpus(str(prepared), "train", corpus.read_vocabulary(str(prepared)))
        list(TrainingBatches(pairs, batch_size=8, num_buckets=1, seed=1).window(0, 0))
