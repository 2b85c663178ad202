"""Preparation of corpora: downloads from a local server, faults during preparation, and the prepared corpus."""

import dataclasses
import gzip
import hashlib
import io
import json
import os
import random
import resource
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.repository import ROOT, assert_single_error
from helpers.server import Server
from helpers.texts import SETTINGS, sentences
from helpers.threads import start_thread

from memattn.data import bpe, corpus
from memattn.data import tokenizer as tokenizers
from memattn.data.batches import TrainingBatches
from memattn.data.preparation import chunks, download, encoding, parallel, releases
from memattn.data.preparation.chunks import misaligned_line
from memattn.data.preparation.parallel import Settings
from memattn.data.text_files import read_lines
from memattn.data.tokenizer import TextSettings
from memattn.errors import ConfigError, DataError, RunError

pytestmark = pytest.mark.slow

DEV = {"de": "newstest2015", "tr": "newsdev2016"}


def made_up_sentences(number, seed):
    """Random sentences of 3,000 made-up words, whose frequencies fall as 1 / rank."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefghijklmnoprstuvwzäöü", k=draw.randint(2, 11))) for _ in range(3000)]
    weights = [1 / rank for rank in range(1, 3001)]
    return [" ".join(draw.choices(words, weights, k=draw.randint(5, 40))) + " ." for _ in range(number)]


ENGLISH, FOREIGN = (made_up_sentences(600, seed) for seed in (1, 2))


def gzipped(lines):
    """The bytes of a gzip file with these lines."""
    return gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)


def archive(members):
    """The bytes of a compressed tar archive, from lines by the names of members."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, lines in members.items():
            member, data = tarfile.TarInfo(name), "".join(f"{line}\n" for line in lines).encode()
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return content.getvalue()


def release(language):
    """Files of a language pair by path: 500 training pairs, of which one is empty, 50 validation and 50 test pairs."""
    english, foreign = [*ENGLISH[:249], "", *ENGLISH[250:500]], FOREIGN[:500]
    dev = {}
    for name, start in ((DEV[language], 500), ("newstest2016", 550)):
        dev[f"dev/{name}.tc.en"] = ENGLISH[start : start + 50]
        dev[f"dev/{name}.tc.{language}"] = FOREIGN[start : start + 50]
    folder = f"/{language}-en"
    return {
        f"{folder}/corpus.tc.en.gz": gzipped(english),
        f"{folder}/corpus.tc.{language}.gz": gzipped(foreign),
        f"{folder}/dev.tgz": archive(dev),
    }


def run_script(script, *arguments, **options):
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def wmt17(server, folder, language="de", bpe_units=200):
    """Arguments of prepare_wmt17.py."""
    return [
        *("--pair", f"en-{language}", "--base_url", server.url, "--bpe_units", bpe_units, "--workers", 1),
        *("--download_dir", folder / "downloads", "--folder", folder / "{pair}"),
    ]


@pytest.fixture
def run(command, tmp_path):
    """run(module, arguments...) runs `python -m module arguments`; returns what run_command does."""

    def run(module, *arguments):
        status, stdout, stderr = command(tmp_path, module, *arguments)
        return subprocess.CompletedProcess(arguments, status, stdout, stderr)

    return run


@pytest.fixture
def prepare_wmt17(run):
    return lambda *arguments, **options: run("scripts.prepare_wmt17", *wmt17(*arguments, **options))


def contents(folder):
    """The bytes and the modification time of each file below a folder, by relative path."""
    paths = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def without_commands(folder):
    """The bytes of the files of a prepared corpus; of the manifest, the entries that do not depend on the command."""
    files = {name: content for name, (content, _) in contents(folder).items()}
    manifest = json.loads(files.pop(corpus.MANIFEST))
    for side in manifest["sources"].values():
        for source in side:
            del source["path"]
    return {**files, corpus.MANIFEST: {key: manifest[key] for key in ("settings", "sources", "counts", "files")}}


def decoded(folder, split="train"):
    """The lines of both sides of a split, decoded from its ids."""
    vocabulary = corpus.read_vocabulary(os.path.join(folder, "vocab.txt"))
    processor, pairs = tokenizers.read(str(folder)), corpus.read_corpus(str(folder), split, vocabulary)
    return [
        [processor.decode(vocabulary.decode(side[i])) for i in range(len(side))]
        for side in (pairs.source, pairs.target)
    ]


@pytest.mark.parametrize("language", ["de", "tr"])
def test_a_pair_of_wmt17_is_downloaded_and_prepared(server, tmp_path, language, prepare_wmt17):
    server.contents = release(language)
    result = prepare_wmt17(server, tmp_path, language, bpe_units=2000)
    assert result.returncode == 0, result.stderr
    folder = tmp_path / f"en-{language}"
    assert "499 training pairs of 500 (1 empty and 0 of more than 200 units dropped)" in result.stdout
    advice = f"to train on it: memattn-train --config wmt17/en-{language} --set data.folder={folder} --run_dir "
    assert result.stdout.splitlines()[-1] == f"{advice}runs/en-{language}"
    about = {"de": "about 5,900,000", "tr": "207,373"}[language]
    assert result.stderr.startswith(f"warning: en-{language} has 500 training pairs, and {about} in the paper: ")
    english, foreign = decoded(folder)
    kept = [i for i in range(500) if i != 249]
    assert (
        sum(word in {"<unk>"} for line in english + foreign for word in line.split()) < 200
    )  # rare letters are unknown
    is_restored = [
        (source == ENGLISH[i], target == FOREIGN[i]) for source, target, i in zip(english, foreign, kept, strict=True)
    ]
    assert np.mean(is_restored) > 0.8
    assert decoded(folder, "valid")[0][0].split()[0] == ENGLISH[500].split()[0]
    references = (folder / "test.reference").read_text(encoding="utf-8").splitlines()
    processor = tokenizers.read(str(folder))
    assert references == [processor.detokenize(line) for line in FOREIGN[550:600]]
    manifest = json.loads((folder / corpus.MANIFEST).read_text())
    assert manifest["counts"]["train"]["dropped_empty"] == 1
    for sources in manifest["sources"].values():
        assert [facts["bytes"] for facts in sources] == [os.path.getsize(facts["path"]) for facts in sources]
    assert manifest["counts"]["valid"] == {"pairs": 50}
    assert 1000 < len(corpus.read_vocabulary(str(folder / "vocab.txt")).tokens) <= 2004
    before = contents(tmp_path)
    again = prepare_wmt17(server, tmp_path, language, bpe_units=2000)
    assert (again.returncode, again.stdout) == (0, result.stdout)
    assert contents(tmp_path) == before
    assert not [name for name in before if "unfinished" in name]


def test_a_broken_download_is_resumed(server, tmp_path, prepare_wmt17):
    server.contents = release("de")
    path = "/de-en/corpus.tc.en.gz"
    server.cuts = {path: [9_000, 9_000]}
    result = prepare_wmt17(server, tmp_path)
    assert result.returncode == 0, result.stderr
    starts = [start for requested, start in server.requests if requested == path]
    assert len(starts) == 3
    assert 0 < starts[1] < starts[2] < len(server.contents[path])
    assert (tmp_path / "downloads" / "de-en" / "corpus.tc.en.gz").read_bytes() == server.contents[path]
    faultless_server = Server()
    faultless_server.contents = server.contents
    assert prepare_wmt17(faultless_server, tmp_path / "faultless").returncode == 0
    faultless_server.close()
    assert without_commands(tmp_path / "en-de") == without_commands(tmp_path / "faultless" / "en-de")


def test_a_file_that_changed_is_downloaded_from_its_start(server, tmp_path):
    path, target = "/file", tmp_path / "file"
    server.contents = {path: b"old" * 10_000}
    server.cuts = {path: [20_000]}
    with pytest.raises(DataError, match="/file: 404"):
        fetch_then(server, path, target, lambda: server.contents.clear())
    assert (tmp_path / "file.unfinished").read_bytes() == (b"old" * 10_000)[:16_384]
    server.contents = {path: b"new" * 9_000}
    download.fetch(server.url + path, str(target), pause=0)
    assert target.read_bytes() == b"new" * 9_000
    assert sorted(os.listdir(tmp_path)) == ["file"]


def fetch_then(server, path, target, act):
    """Fetches a file; calls act() before each request but the first."""
    answer, requests = server.answer, []

    def act_and_answer(request):
        if requests:
            act()
        requests.append(request)
        answer(request)

    server.answer = act_and_answer
    try:
        download.fetch(server.url + path, str(target), pause=0)
    finally:
        server.answer = answer


def test_a_download_without_ranges_starts_over(server, tmp_path):
    server.tags = False
    server.contents, server.cuts = {"/file": b"x" * 5000}, {"/file": [1000, 2000]}
    download.fetch(f"{server.url}/file", str(tmp_path / "file"), pause=0)
    assert (tmp_path / "file").read_bytes() == b"x" * 5000
    assert [start for _, start in server.requests] == [0, 0, 0]


def test_a_download_is_attempted_five_times(server, tmp_path):
    server.contents, server.statuses = {"/file": b"x"}, {"/file": [503, 500]}
    download.fetch(f"{server.url}/file", str(tmp_path / "file"), pause=0)
    server.statuses = {"/other": [503] * 50}
    with pytest.raises(DataError, match="/other: .*5 attempts.*503.*takes a file that you put at"):
        download.fetch(f"{server.url}/other", str(tmp_path / "other"), pause=0)
    assert len(server.requests) == 8
    for url in ("http://:0/nowhere", "example.org/nowhere", "gopher://example.org/nowhere"):
        with pytest.raises(DataError, match="nowhere: not an address"):
            download.fetch(url, str(tmp_path / "nowhere"), pause=0)


def test_a_second_process_waits_for_a_download_of_the_same_file(server, tmp_path, capfd):
    server.contents, target = {"/file": b"x" * 50_000}, str(tmp_path / "file")
    threads, lines = [], []

    def is_waiting():
        lines.append(capfd.readouterr().err)
        return "is downloading it; waiting" in "".join(lines)

    def start_second_download():
        server.hold = lambda: None
        threads.append(start_thread(lambda: download.fetch(f"{server.url}/file", target), is_waiting))

    server.hold = start_second_download
    download.fetch(f"{server.url}/file", target)
    threads[0].join(20)
    assert not threads[0].is_alive()
    assert server.requests == [("/file", 0)]
    assert (tmp_path / "file").read_bytes() == b"x" * 50_000
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_of_another_checksum_is_refused(server, tmp_path):
    server.contents, target = {"/file": b"theirs"}, tmp_path / "file"
    for _ in range(2):  # the first call downloads the file, the second finds it there
        with pytest.raises(DataError, match=r"file: .*SHA-256 is [0-9a-f]{64}, not 00"):
            download.fetch(f"{server.url}/file", str(target), sha256="00")
    target.unlink()
    download.fetch(f"{server.url}/file", str(target), sha256=hashlib.sha256(b"theirs").hexdigest())
    assert target.read_bytes() == b"theirs"


@pytest.mark.parametrize("tags", [True, False])
def test_a_download_without_a_length_is_checked_by_its_archive(server, tmp_path, tags):
    server.length, server.tags = None, tags
    server.contents = {name: gzipped(ENGLISH) for name in ("/cut.gz", "/none.gz")} | {"/text": b"x" * 5000}
    server.cuts = {"/cut.gz": [9_000], "/none.gz": [0], "/text": [4000]}
    for name in ("cut.gz", "none.gz"):
        download.fetch(f"{server.url}/{name}", str(tmp_path / name), pause=0)
        assert (tmp_path / name).read_bytes() == server.contents[f"/{name}"]
        assert len([path for path, _ in server.requests if path == f"/{name}"]) == 2
    download.fetch(f"{server.url}/text", str(tmp_path / "text"), pause=0)
    assert (tmp_path / "text").stat().st_size == 4000  # neither a length nor an archive shows that bytes are missing
    server.contents["/half.tgz"] = archive({"a": ENGLISH})[:9_000]
    with pytest.raises(DataError, match="half.tgz: .*5 attempts"):
        download.fetch(f"{server.url}/half.tgz", str(tmp_path / "half.tgz"), pause=0)


@pytest.mark.parametrize("length", ["banana", "-5", "1e3", "9" * 5000])
def test_an_invalid_content_length_is_reported(server, tmp_path, length):
    server.contents, server.length = {"/file": b"x"}, length
    with pytest.raises(DataError, match=f"/file: .*Content-Length.*'{length}'"):
        download.fetch(f"{server.url}/file", str(tmp_path / "file"), pause=0)


def test_an_archive_with_two_files_of_the_same_name_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "dev.tgz"
    path.write_bytes(archive({"old/a": ["1"], "new/a": ["2"], "b": ["3"], "./b": ["4"]}))
    with pytest.raises(DataError, match="dev.tgz: .*old/a and new/a"):
        download.extract(str(path), ["a"], str(tmp_path / "out"))
    (tmp_path / "out" / "a").write_text("mine")
    assert download.extract(str(path), ["a"], str(tmp_path / "out")) == [str(tmp_path / "out" / "a")]
    opened = tarfile.TarFile.extractfile

    class Pieces:
        def __init__(self, file):
            self.file = file

        def read(self, size):  # needs a size: a caller must not read a member at once
            return self.file.read(size)

    monkeypatch.setattr(tarfile.TarFile, "extractfile", lambda *arguments: Pieces(opened(*arguments)))
    (extracted,) = download.extract(str(path), ["b"], str(tmp_path / "out"))
    assert Path(extracted).read_text() == "4\n"  # the last of the members b and ./b, which name the same file


def test_nothing_is_extracted_from_an_archive_that_is_damaged_at_its_end(tmp_path):
    content = bytearray(archive({"a": ["1"]}))
    content[-6] ^= 1  # the checksum of the content
    (tmp_path / "dev.tgz").write_bytes(content)
    with pytest.raises(DataError, match="dev.tgz: not a complete tar archive"):
        download.extract(str(tmp_path / "dev.tgz"), ["a"], str(tmp_path / "out"))
    assert not os.listdir(tmp_path / "out")


@pytest.mark.parametrize(
    ("pair", "pairs", "is_right"),
    [
        ("en-tr", 207_373, True),
        ("en-tr", 207_372, False),
        ("en-de", 5_852_458, True),
        ("en-de", 5_800_000, False),
        ("en-cs", 0, False),
    ],
)
def test_a_number_of_pairs_unlike_the_papers_is_reported(pair, pairs, is_right):
    assert (releases.wmt17.problem(pair, pairs) is None) == is_right


@pytest.mark.parametrize(
    ("path", "breaks", "problems"),
    [
        ("/de-en/dev.tgz", lambda content: content[: len(content) // 2], ["dev.tgz: not a complete tar archive"]),
        ("/de-en/dev.tgz", lambda content: archive({"dev/x": ["a"]}), ["dev.tgz: holds no file newstest2015.tc.en"]),
        (
            "/de-en/dev.tgz",
            lambda content: archive({"dev/newstest2015.tc.en": ["a"], "../../escaped": ["b"]}),
            ["dev.tgz: unsafe: its member '../../escaped' leads out of the folder"],
        ),
        ("/de-en/dev.tgz", lambda content: archive({"/escaped": ["b"]}), ["unsafe: its member '/escaped'"]),
        (
            "/de-en/corpus.tc.en.gz",
            lambda content: content[: len(content) // 2],
            ["corpus.tc.en.gz: not a complete gzip file"],
        ),
        (
            "/de-en/corpus.tc.en.gz",
            lambda content: content[:5000] + bytes(50) + content[5050:],
            ["corpus.tc.en.gz: not a complete gzip file"],
        ),
        ("/de-en/corpus.tc.en.gz", lambda content: gzipped(["a", "b"])[:-8] + bytes(8), ["not a complete gzip file"]),
        (
            "/de-en/corpus.tc.en.gz",
            lambda content: gzipped(ENGLISH[:100] + ENGLISH[103:500]),
            ["corpus.tc.en.gz has 497 lines", "corpus.tc.de.gz has 500", "they part near line "],
        ),
        ("/de-en/corpus.tc.de.gz", lambda content: gzip.compress(b"a\n\xe4\n"), ["de.gz:2: not UTF-8 text: byte 0xe4"]),
        ("/de-en/corpus.tc.de.gz", lambda content: None, ["corpus.tc.de.gz: 404 "]),
    ],
)
def test_a_broken_release_is_refused_until_it_is_mended(server, tmp_path, path, breaks, problems, prepare_wmt17):
    good = release("de")
    server.contents = dict(good)
    server.contents[path] = breaks(good[path])
    if server.contents[path] is None:
        del server.contents[path]
    (tmp_path / "deep" / "er").mkdir(parents=True)
    result = prepare_wmt17(server, tmp_path / "deep" / "er")
    assert_single_error(result, *problems)
    assert not (tmp_path / "deep" / "er" / "en-de").exists()
    assert not [where for where, _, names in os.walk(tmp_path) if "escaped" in names]
    server.contents = good
    fetched = tmp_path / "deep" / "er" / "downloads" / path.lstrip("/")
    if fetched.exists():
        fetched.unlink()
    result = prepare_wmt17(server, tmp_path / "deep" / "er")
    assert result.returncode == 0, result.stderr


def test_a_full_disk_leaves_no_file_that_looks_complete(server, tmp_path, prepare_wmt17):
    """A limit on the size of files makes writing fail as on a full disk; each limit fails at another file."""
    server.contents = release("de")
    sizes = sorted({64, *(len(content) // 2 for content in server.contents.values()), 15_000, 30_000, 60_000})
    failures = 0
    for size in sizes:
        result = run_script(
            "prepare_wmt17.py",
            *wmt17(server, tmp_path),
            preexec_fn=lambda size=size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        )
        if result.returncode:
            failures += 1
            assert_single_error(result, "File too large")
            assert not (tmp_path / "en-de").exists()
    assert failures >= 4
    assert prepare_wmt17(server, tmp_path).returncode == 0
    assert prepare_wmt17(server, tmp_path / "faultless").returncode == 0
    assert without_commands(tmp_path / "en-de") == without_commands(tmp_path / "faultless" / "en-de")


@pytest.fixture
def files(tmp_path):
    """Paths of raw parallel text of three splits; some training pairs are empty or too long."""
    splits = {}
    for split, number in (("train", 90), ("valid", 8), ("test", 9)):
        sides = [sentences(number, f"{split}{side}") for side in range(2)]
        if split == "train":
            sides[0][3], sides[1][40], sides[0][60] = "", " \t ", "Haus " * 300
            sides[1][7] = "Haus\u2028Hund\u00a0Stadt, alt."
        splits[split] = tuple(str(tmp_path / f"{split}.{side}") for side in ("en", "de"))
        for path, lines in zip(splits[split], sides, strict=True):
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{line}\r\n" for line in lines)
    return splits


def test_a_prepared_corpus_holds_the_pairs_of_the_text(files, tmp_path):
    manifest = parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)
    counts = manifest["counts"]["train"]
    assert (counts["read"], counts["pairs"], counts["dropped_empty"], counts["dropped_too_long"]) == (90, 87, 2, 1)
    lines = [read_lines(path) for path in files["train"]]
    processor = tokenizers.read(str(tmp_path / "out"))
    kept = [i for i in range(90) if i not in (3, 40, 60)]
    for side, decoded_lines, original in zip(corpus.SIDES, decoded(tmp_path / "out"), lines, strict=True):
        expected = [processor.decode(processor.encode(original[i], side)) for i in kept]
        assert len(decoded_lines) == len(expected)
        is_different = [line != expected_line for line, expected_line in zip(decoded_lines, expected, strict=True)]
        assert sum(is_different) <= 1  # the line with odd white space
    assert read_lines(str(tmp_path / "out" / "test.reference")) == read_lines(files["test"][1])
    mapped = corpus.read_corpus(str(tmp_path / "out"), "train", corpus.read_vocabulary(str(tmp_path / "out/vocab.txt")))
    assert isinstance(mapped.source.ids, np.memmap)
    assert mapped.source.ids.dtype == np.uint16
    assert (counts["source_tokens"], counts["longest_source"]) == (
        mapped.source.offsets[-1],
        mapped.source.lengths().max(),
    )


def test_a_pair_may_have_exactly_as_many_units_as_max_length(files, tmp_path):
    def counts(max_length):
        settings = dataclasses.replace(SETTINGS, max_length=max_length)
        return parallel.prepare(files, settings, str(tmp_path / str(max_length)), 1)["counts"]["train"]

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


def test_a_preparation_interrupted_anywhere_resumes_by_the_same_command(files, tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", 10)
    monkeypatch.setattr(encoding, "JOURNAL_EVERY", 20)
    parallel.prepare(files, SETTINGS, str(tmp_path / "uninterrupted"), 1)
    writes, limit = [], 0
    write = parallel.files.write

    def interrupted_write(path, content):
        writes.append(path)
        if len(writes) == limit:
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(parallel.files, "write", interrupted_write)
    interruptions = 0
    encoded = []
    encode = encoding.EncodeChunk.__call__

    def recorded_encode(encoder, chunk):
        encoded.append(chunk)
        return encode(encoder, chunk)

    monkeypatch.setattr(encoding.EncodeChunk, "__call__", recorded_encode)
    while not (tmp_path / "resumed").exists():
        writes.clear()
        limit += 1
        try:
            parallel.prepare(files, SETTINGS, str(tmp_path / "resumed"), 1)
        except KeyboardInterrupt:
            interruptions += 1
        assert limit < 100
    assert interruptions >= 10
    assert len(encoded) < 2 * 9 + interruptions  # chunks of the journal are not encoded again
    monkeypatch.undo()
    assert without_commands(tmp_path / "resumed") == without_commands(tmp_path / "uninterrupted")
    assert not (tmp_path / "resumed.unfinished").exists()


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("journal.json", lambda path: path.write_text(path.read_text()[:9])),
        ("journal.json", lambda path: path.write_bytes(b"\xff")),
        ("journal.json", lambda path: path.write_text("[]")),
        ("journal.json", lambda path: path.write_text('{"read": 20}')),
        ("journal.json", lambda path: path.write_text(path.read_text().replace('"read": 90', '"read": "90"'))),
        ("train.source.ids.npy", lambda path: os.truncate(path, path.stat().st_size // 2)),
        ("train.target.offsets.npy", lambda path: np.save(path, np.zeros(5, np.int64))),
        ("train.target.ids.npy", lambda path: path.unlink()),
    ],
)
def test_a_damaged_preparation_encodes_all_pairs_again(files, tmp_path, monkeypatch, name, spoil):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(parallel.segmenting, "write_segmented", interrupted)
        with pytest.raises(KeyboardInterrupt):
            parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)
    spoil(tmp_path / "out.unfinished" / name)
    with pytest.warns(UserWarning, match="journal.json: .*damaged"):
        parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)
    parallel.prepare(files, SETTINGS, str(tmp_path / "undamaged"), 1)
    assert without_commands(tmp_path / "out") == without_commands(tmp_path / "undamaged")


def test_other_settings_or_files_are_refused_for_a_complete_corpus(files, tmp_path):
    folder = tmp_path / "out"
    parallel.prepare(files, SETTINGS, str(folder), 1)
    before = contents(folder)
    with pytest.raises(ConfigError, match=r"bpe_units \(\d+ there, 50 here\)"):
        parallel.prepare(files, Settings(SETTINGS.text, bpe_units=50), str(folder), 1)
    with open(files["valid"][0], "a", encoding="utf-8") as file:
        file.write("\n")
    with pytest.raises(ConfigError, match=r"holds another corpus \(other files\)"):
        parallel.prepare(files, SETTINGS, str(folder), 1)
    assert contents(folder) == before
    (folder / "bpe.codes").write_text("")
    with open(files["valid"][0], "rb+") as file:
        file.truncate(os.path.getsize(files["valid"][0]) - 1)
    with pytest.raises(ConfigError, match="bpe.codes: missing or changed"):
        parallel.prepare(files, SETTINGS, str(folder), 1)


def test_the_vocabulary_of_another_corpus_is_used(files, tmp_path, monkeypatch):
    parallel.prepare(files, SETTINGS, str(tmp_path / "first"), 1)
    others = {split: tuple(str(tmp_path / f"other.{split}.{side}") for side in ("en", "de")) for split in files}
    for split, paths in others.items():
        for path in paths:
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{line} Zyklop\n" for line in sentences(20, f"{split}{path[-2:]}"))
    folder, shared = str(tmp_path / "second"), str(tmp_path / "first")
    monkeypatch.setattr(bpe, "learn", lambda *_: pytest.fail("learned"))
    manifest = parallel.prepare(others, SETTINGS, folder, 1, shared)
    before = contents(tmp_path / "second")
    for name in ("vocab.txt", "bpe.codes"):
        assert before[name][0] == contents(tmp_path / "first")[name][0]
    names = [os.path.basename(source["path"]) for source in manifest["sources"]["vocabulary_of"]]
    assert names == ["bpe.codes", "vocab.txt"]
    sides = [read_lines(path) for path in others["train"]]
    for decoded_lines, lines in zip(decoded(tmp_path / "second"), sides, strict=True):
        assert len(decoded_lines) == len(lines) == 20
    assert parallel.prepare(others, SETTINGS, folder, 1, shared) == manifest
    assert contents(tmp_path / "second") == before
    with pytest.raises(ConfigError, match=r"second: .*\(other files\)"):
        parallel.prepare(others, SETTINGS, folder, 1)


def test_a_vocabulary_that_does_not_fit_is_refused(files, tmp_path):
    parallel.prepare(files, SETTINGS, str(tmp_path / "first"), 1)
    tokenized = Settings(TextSettings("tokenized", "en", "de"), bpe_units=16_000)
    with pytest.raises(ConfigError, match="--vocabulary_of .*first: .*raw en de.*tokenized en de"):
        parallel.prepare(files, tokenized, str(tmp_path / "out"), 1, str(tmp_path / "first"))
    with pytest.raises(ConfigError, match="--vocabulary_of nowhere: "):
        parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1, "nowhere")
    (tmp_path / "tokens").mkdir()
    (tmp_path / "tokens" / "vocab.txt").write_text("a\n")
    with pytest.raises(ConfigError, match="--vocabulary_of .*tokens: .*BPE"):
        parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1, str(tmp_path / "tokens"))
    assert not (tmp_path / "out").exists()


def interrupt_before_encoding(files, folder, monkeypatch):
    """Prepares a folder until its BPE is learned, and leaves it unfinished."""

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(parallel.encoding, "write_encoded", interrupt)
        with pytest.raises(KeyboardInterrupt):
            parallel.prepare(files, SETTINGS, str(folder), 1)


def test_an_unfinished_preparation_with_other_settings_is_kept(files, tmp_path, monkeypatch):
    interrupt_before_encoding(files, tmp_path / "out", monkeypatch)
    before = contents(tmp_path / "out.unfinished")
    shorter = dataclasses.replace(SETTINGS, max_length=3)
    with pytest.raises(
        ConfigError, match=r"out.unfinished: .* with other settings: max_length \(.* there, 3 here\); give"
    ):
        parallel.prepare(files, shorter, str(tmp_path / "out"), 1)
    assert contents(tmp_path / "out.unfinished") == before


def test_an_unrelated_folder_is_left_alone(files, tmp_path):
    for folder in (tmp_path / "mine", tmp_path / "other.unfinished"):
        folder.mkdir()
        (folder / "diary.txt").write_text("dear")
    with pytest.raises(ConfigError, match="mine: exists, but is not a prepared corpus"):
        parallel.prepare(files, SETTINGS, str(tmp_path / "mine"), 1)
    with pytest.raises(ConfigError, match="other.unfinished: "):
        parallel.prepare(files, SETTINGS, str(tmp_path / "other"), 1)
    assert (tmp_path / "mine" / "diary.txt").read_text() == (tmp_path / "other.unfinished" / "diary.txt").read_text()


@pytest.mark.parametrize(
    "content", ["{}", "[]", "theirs", "\xff", '{"memattn": "0.1.0"}', '{"settings": {}, "sources": {}}']
)
def test_an_unfinished_folder_of_another_program_is_left_alone(files, tmp_path, content):
    (tmp_path / "out.unfinished").mkdir()
    for name in ("settings.json", "thesis.tex"):
        (tmp_path / "out.unfinished" / name).write_bytes(content.encode("latin-1"))
    before = contents(tmp_path / "out.unfinished")
    with pytest.raises(ConfigError, match="out.unfinished: .*remove"):
        parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)
    assert contents(tmp_path / "out.unfinished") == before


def test_a_second_preparation_of_a_folder_is_refused(files, tmp_path, monkeypatch):
    folder, segment, refused = str(tmp_path / "out"), parallel.segmenting.write_segmented, []

    def prepare_again_and_segment(*arguments):
        with pytest.raises(RunError, match="out: process .*--folder"):
            parallel.prepare(files, SETTINGS, folder, 1)
        refused.append(True)
        segment(*arguments)

    monkeypatch.setattr(parallel.segmenting, "write_segmented", prepare_again_and_segment)
    parallel.prepare(files, SETTINGS, folder, 1)
    assert len(refused) == 2
    monkeypatch.undo()
    parallel.prepare(files, SETTINGS, str(tmp_path / "alone"), 1)
    assert without_commands(folder) == without_commands(tmp_path / "alone")
    assert not [name for name in os.listdir(tmp_path) if name.endswith((".lock", ".unfinished"))]


@pytest.mark.parametrize(
    "manifest",
    [
        "{}",
        "[]",
        '{"files": {}}',
        '{"files": [], "settings": {}, "sources": {}}',
        '{"files": {}, "settings": [], "sources": {}}',
        "3",
        "\xff",
    ],
)
def test_a_folder_with_an_unrelated_manifest_is_left_alone(files, tmp_path, manifest):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / corpus.MANIFEST).write_bytes(manifest.encode("latin-1"))
    with pytest.raises(ConfigError, match="mine: exists, but is not a prepared corpus"):
        parallel.prepare(files, SETTINGS, str(tmp_path / "mine"), 1)


@pytest.mark.parametrize("name", ["settings.json", "manifest.json", "vocab.txt"])
def test_partial_files_of_a_killed_preparation_are_not_used(files, tmp_path, monkeypatch, name):
    write = parallel.files.write

    def killed(path, content):
        if os.path.basename(path) == name:
            Path(f"{path}.unfinished").write_text("half")
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(parallel.files, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)
    monkeypatch.undo()
    parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)
    assert not [name for name in os.listdir(tmp_path / "out") if "unfinished" in name]
    assert parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)


def test_damaged_codes_of_an_interrupted_preparation_are_refused(files, tmp_path, monkeypatch):
    interrupt_before_encoding(files, tmp_path / "out", monkeypatch)
    codes = tmp_path / "out.unfinished" / "bpe.codes"
    codes.write_text(codes.read_text() + "alone\n")
    with pytest.raises(DataError, match=r"bpe.codes:\d+: a merge is two units"):
        parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)


def test_a_line_that_tokenization_empties_is_dropped(files, tmp_path):
    lines = read_lines(files["train"][0])
    lines[5] = "\x01\x02"
    Path(files["train"][0]).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    counts = parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)["counts"]["train"]
    assert (counts["pairs"], counts["dropped_empty"]) == (86, 3)


def test_too_little_text_is_refused(files, tmp_path):
    for path in files["train"]:
        Path(path).write_text("x\n", encoding="utf-8")
    with pytest.raises(DataError, match="too little text"):
        parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)


def test_a_byte_order_mark_alone_is_an_empty_line(files, tmp_path):
    Path(files["valid"][0]).write_bytes(b"\xef\xbb\xbf")
    Path(files["valid"][1]).write_bytes(b"Hund Katze Haus Stadt\n")
    parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)
    assert read_lines(str(tmp_path / "out" / "valid.source")) == [""]


def test_workers_end_with_their_parent():
    code = (
        "import multiprocessing, time\nfrom memattn.data.preparation.workers import Workers\n"
        "with Workers(2) as pool:\n"
        "    assert list(pool.map(abs, [-1, -2])) == [1, 2]\n"
        "    print(*[worker.pid for worker in multiprocessing.active_children()], flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        workers = list(map(int, process.stdout.readline().split()))
        process.terminate()
        process.wait(timeout=30)
    assert workers
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_sample_is_drawn_by_seed(files, tmp_path):
    codes = []
    for seed, name in ((1, "a"), (1, "b"), (2, "c")):
        settings = Settings(SETTINGS.text, bpe_units=60, bpe_sample=30, seed=seed)
        parallel.prepare(files, settings, str(tmp_path / name), 1)
        codes.append((tmp_path / name / "bpe.codes").read_text())
    assert codes[0] == codes[1] != codes[2]


def test_the_line_where_two_files_get_out_of_step_is_estimated():
    draw = np.random.default_rng(3)
    source = draw.integers(5, 200, 2000)
    target = np.maximum(1, (source * draw.normal(1.1, 0.1, 2000)).astype(int))
    for missing in (0, 1, 700, 1999):
        assert abs(misaligned_line(source, np.delete(target, missing)) - (missing + 1)) <= 5
        assert abs(misaligned_line(np.delete(source, missing), target) - (missing + 1)) <= 5
    assert abs(misaligned_line(source, np.delete(target, [900, 901, 902])) - 901) <= 5


def test_a_file_that_is_missing_or_there_in_two_forms_is_reported_by_the_command(files, run, tmp_path):
    prefix = files["train"][0].removesuffix(".en")
    arguments = ["--source", "en", "--target", "de", "--folder", tmp_path / "out", "--bpe_units", 50, "--workers", 2]
    result = run("memattn.prepare", "parallel", "--train", prefix, "--valid", tmp_path / "none", *arguments)
    assert_single_error(result, "none.en and ", "none.en.gz are both missing")
    valid = files["valid"][0].removesuffix(".en")
    second = Path(f"{valid}.de.gz")
    second.write_bytes(gzip.compress(b"other text\n"))
    result = run("memattn.prepare", "parallel", "--train", prefix, "--valid", valid, *arguments)
    assert_single_error(result, f"{valid}.de and {second} are both there; remove one")
    second.unlink()
    result = run("memattn.prepare", "parallel", "--train", prefix, "--valid", valid, *arguments)
    assert result.returncode == 0, result.stderr
    assert "87 training pairs of 90" in result.stdout


def test_languages_may_differ_from_the_suffixes_of_files(run, tmp_path):
    """Suffixes of files that are no code of a language cause warnings; with the code of Korean, blanks are restored."""
    lines = [f"나는 {thing}에 갑니다." for thing in ("학교", "집", "공원", "시장", "도서관")]
    for split in ("train", "valid"):
        for end, sentence in (("src", "I go to school ."), ("tgt", None)):
            content = "".join(f"{sentence or line}\n" for line in lines)
            (tmp_path / f"{split}.{end}").write_text(content, encoding="utf-8")
    arguments = ["parallel", "--train", tmp_path / "train", "--valid", tmp_path / "valid", "--bpe_units", 30]
    arguments += ["--source=src", "--target=tgt", "--workers=1", "--source_language=EN"]

    result = run("memattn.prepare", *arguments, "--folder", tmp_path / "wrong")
    assert result.returncode == 0
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 2
    assert warnings[0].startswith("warning: --target_language: Moses has no rules for 'tgt', and those of English are ")
    assert "valid.tgt: 5 of 5 targets come back from Moses' tokenizer with other blanks" in warnings[1]

    result = run("memattn.prepare", *arguments, "--target_language=ko-KR", "--folder", tmp_path / "right")
    assert (result.returncode, "warning" in result.stderr) == (0, False)
    right = tokenizers.read(str(tmp_path / "right"))
    assert (right.settings.source_language, right.settings.target_language) == ("en", "ko")
    assert [right.detokenize(right.decode(right.encode(line, "target"))) for line in lines] == lines

    result = run("memattn.prepare", *arguments, "--target_language=한국어", "--folder", tmp_path / "none")
    assert_single_error(result, "--target_language: '한국어' is not the code of a language, such as de, zh or pt-BR")


def test_targets_of_single_words_are_reported(files, tmp_path):
    for path in files["valid"]:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(["Haus\n"] * 8)
    with pytest.warns(UserWarning, match=r"valid\.de: BLEU"):
        parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "no command; give one of copy, wmt17, multi30k, parallel"),
        (
            ["wtm17"],
            "wtm17: not a command; did you mean wmt17?; give one of copy, wmt17, multi30k, parallel",
        ),
        (["--folder=data", "copy"], "--folder=data: not a command; give one of copy"),
        (["copy", "multi30k"], "multi30k: not a flag"),
        (["copy", "--max_length="], "--max_length: empty; give one or more"),
        (["copy", f"--max_length={10**20}"], f"--max_length: '{10**20}' is not an int of at least 1 that fits"),
        (["copy", f"--seed={10**23}"], "--seed"),
        (["multi30k", "--pair=en-de"], "Unknown command line flag 'pair'"),
        (["wmt17"], "error: --pair is missing; see --help"),
        (
            ["parallel", *(f"--{key}={__file__[:-3]}" for key in ("train", "valid")), "--source=py", "--target=py"]
            + ["--source_language=en", "--target_language=de"]
            + ["--folder=none", "--vocabulary_of=other", "--bpe_units=5"],
            "--bpe_units: without effect, because --vocabulary_of gives the BPE",
        ),
    ],
)
def test_wrong_commands_are_reported_in_one_line(arguments, problem, run):
    result = run("memattn.prepare", *arguments)
    assert result.returncode == 2
    assert_single_error(result, problem)


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("copy", "num_symbols"),
        ("wmt17", "pair"),
        ("multi30k", "bpe_units"),
        ("parallel", "form"),
    ],
)
def test_each_command_has_its_help(name, flag, run):
    assert f"\n{name} " in run("memattn.prepare", "--help").stdout
    result = run("memattn.prepare", name, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert f"\nmemattn-prepare {name}" in result.stdout
    assert f"\n  --{flag}: " in result.stdout


@pytest.mark.parametrize(
    ("name", "spoil", "problem"),
    [
        ("train.source.ids.npy", lambda path: path.write_bytes(path.read_bytes()[:-7]), "not a complete array"),
        ("train.target.offsets.npy", lambda path: path.write_bytes(b""), "not a complete array"),
        (
            "train.source.offsets.npy",
            lambda path: np.save(path, np.zeros((2, 2), np.int64)),
            "not a one-dimensional array",
        ),
        ("train.source.offsets.npy", lambda path: np.save(path, np.zeros(3)), "not a one-dimensional array"),
        ("train.target.ids.npy", lambda path: np.save(path, np.zeros(9, np.uint16)), "does not match its ids"),
        ("train.target.ids.npy", lambda path: path.unlink(), "No such file"),
        ("train.source.ids.npy", lambda path: np.save(path, np.array([{}])), "not a complete array"),
        ("vocab.txt", lambda path: path.write_text("a\nb\n"), "vocab.txt: not the one that .*out was prepared with"),
        ("manifest.json", lambda path: path.write_text("{}"), "manifest.json: files is missing"),
    ],
)
def test_a_damaged_corpus_is_refused(files, tmp_path, name, spoil, problem):
    parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)
    spoil(tmp_path / "out" / name)
    with pytest.raises(DataError, match=problem):
        corpus.read_corpus(str(tmp_path / "out"), "train", corpus.read_vocabulary(str(tmp_path / "out/vocab.txt")))


@pytest.mark.parametrize("damage", [9999, -3])
def test_an_id_beyond_the_vocabulary_is_refused_when_it_is_read(files, tmp_path, damage):
    parallel.prepare(files, SETTINGS, str(tmp_path / "out"), 1)
    path = corpus.binary_paths(str(tmp_path / "out"), "train", "target")["ids"]
    ids = np.load(path).astype(np.int32)
    ids[-2] = damage
    np.save(path, ids)
    vocabulary = corpus.read_vocabulary(str(tmp_path / "out/vocab.txt"))
    pairs = corpus.read_corpus(str(tmp_path / "out"), "train", vocabulary)
    batches = TrainingBatches(pairs, batch_size=8, num_buckets=1, seed=1)
    with pytest.raises(DataError, match=f"target.ids.npy: damaged: .*{damage}.*{len(vocabulary)} "):
        list(batches.window(0, 0))
