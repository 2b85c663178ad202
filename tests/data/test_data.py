"""The vocabulary, reading a prepared corpus, and cutting it into batches."""

import dataclasses
import itertools
import os
import re
import subprocess

import numpy as np
import pytest
from helpers.repository import ROOT

from memattn.data import batches, lexicon
from memattn.data.batches import TrainingBatches, bucket_widths, decoding_batches, streaming_batches
from memattn.data.corpus import read_references, read_vocabulary
from memattn.data.sentences import Corpus, Sentences
from memattn.data.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS, UNK, Vocabulary
from memattn.errors import DataError
from memattn.files import read_lines

A, B, C = range(4, 7)


@pytest.fixture
def vocabulary():
    return Vocabulary(["a", "b", "c"])


def make_corpus(pairs=53, longest=17, seed=0):
    """A corpus of distinct sentences: the first id of each identifies its side and its index."""
    random = np.random.default_rng(seed)
    sides = []
    for side in (1000, 2000):
        lengths = random.integers(1, longest + 1, pairs)
        rows = [[side + index] + [A] * (length - 1) for index, length in enumerate(lengths)]
        sides.append(Sentences(np.concatenate(rows).astype(np.int32), np.concatenate([[0], np.cumsum(lengths)])))
    return Corpus(*sides)


def make_batches(batch_size=4, num_buckets=3, seed=5, corpus=None, **options):
    return TrainingBatches(
        corpus or make_corpus(), batch_size=batch_size, num_buckets=num_buckets, seed=seed, **options
    )


def epoch_of(batches, epoch):
    """All batches of an epoch."""
    return [ids for window in range(batches.windows) for ids in batches.window(epoch, window)]


@pytest.fixture(params=[7, batches.WINDOW], ids=["many windows", "one window"])
def window(request, monkeypatch):
    """Sets the size of windows: many windows of 7 pairs, as in a large corpus, or a single window."""
    monkeypatch.setattr(batches, "WINDOW", request.param)
    monkeypatch.setattr(batches, "_LEAST_BATCHES", 1)


def as_lists(batches):
    return [(source.tolist(), target.tolist()) for source, target in batches]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "vocab.txt:1: the line is empty"),
        ("x\na\fb\n", "vocab.txt:2: .* white space"),
        ("b\na\nc\na\n", "vocab.txt:4: the token 'a' is in line 2 already"),
        ("</s>\n", "vocab.txt:1: '</s>' is a special token, which every vocabulary has already; remove the line"),
    ],
)
def test_a_bad_vocabulary_file_is_reported_with_its_line(tmp_path, content, problem):
    (tmp_path / "vocab.txt").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=problem):
        read_vocabulary(str(tmp_path))


def test_a_vocabulary_is_written_and_read_encodes_and_decodes(vocabulary, tmp_path):
    tokens = ["a", "é", "@@x", "#", "中"]
    (tmp_path / "vocab.txt").write_text(str(Vocabulary(tokens)), encoding="utf-8")
    assert read_vocabulary(str(tmp_path)).tokens == [*SPECIAL_TOKENS, *tokens]
    assert vocabulary.encode(["a", *SPECIAL_TOKENS, "b"]) == [A, UNK, UNK, UNK, UNK, B, EOS]
    assert vocabulary.decode(np.array([BOS, A, PAD, UNK, C, EOS, B])) == ["a", "<unk>", "c"]
    assert vocabulary.decode(np.array([A, B])) == ["a", "b"]


def test_lines_are_encoded_and_padded(vocabulary):
    sentences = Sentences.from_lines(["a b", "", "  c\tz "], vocabulary)
    assert [sentences[i].tolist() for i in range(3)] == [[A, B, EOS], [EOS], [C, UNK, EOS]]
    assert sentences.lengths().tolist() == [3, 1, 3]
    assert sentences.ids.dtype == np.int32
    assert sentences.padded(np.array([2, 1]), rows=3, width=4).tolist() == [
        [C, UNK, EOS, PAD],
        [EOS, PAD, PAD, PAD],
        [PAD] * 4,
    ]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("a\nb", ["a", "b"]),
        ("", []),
        ("a\n\nb c\r\nd\r", ["a", "", "b c", "d"]),
        ("a\u2028b\nc\x85d\re\n\x0bf\x0cg\x1ch\u3000j\n", ["a\u2028b", "c\x85d\re", "\x0bf\x0cg\x1ch\u3000j"]),
    ],
)
def test_only_a_line_feed_ends_a_line(tmp_path, content, lines):
    path = tmp_path / "lines"
    path.write_bytes(content.encode("utf-8"))
    assert read_lines(str(path)) == lines


def test_bytes_that_are_not_utf8_are_reported_with_their_line(tmp_path):
    path = tmp_path / "train.source"
    path.write_bytes("a\né\nb ".encode() + b"\xff c\nd\n")
    with pytest.raises(DataError) as caught:
        read_lines(str(path))
    assert str(caught.value) == f"{path}:3: not UTF-8 text: byte 0xff"


@pytest.mark.parametrize("blank", ["\u00a0", "\u2028", "\x1c"], ids=ascii)
def test_only_blanks_divide_tokens(tmp_path, blank):
    word = f"10{blank}000"
    vocabulary = Vocabulary(["a", word])
    assert Sentences.from_lines([f"a  {word}\ta "], vocabulary)[0].tolist() == [A, B, A, EOS]
    (tmp_path / "test.target").write_text(f" a  {word}\n", encoding="utf-8", newline="\n")
    assert read_references(str(tmp_path), "test") == ([["a", word]], [f"a {word}"])
    (tmp_path / "lexicon.tsv").write_text(f"a\t{word}\t0.5\n", encoding="utf-8", newline="\n")
    assert lexicon.read(str(tmp_path / "lexicon.tsv"), vocabulary, 1)(np.array([[A]])).ids[:6].tolist() == [*range(6)]


def test_buckets_hold_equal_shares_of_the_lengths():
    assert bucket_widths(np.bincount(np.arange(1, 101)), 4).tolist() == [25, 50, 75, 100]
    assert bucket_widths(np.bincount(np.array([3, 9, 4])), 1).tolist() == [9]
    assert bucket_widths(np.bincount(np.full(10, 7)), 4).tolist() == [7]
    assert bucket_widths(np.bincount(np.array([3, 3, 5, 9, 9, 20])), 2**31).tolist() == [3, 5, 9, 20]
    assert bucket_widths(np.bincount(np.array([1, 1, 1, 50])), 2).tolist() == [1, 50]
    assert bucket_widths(np.bincount(np.repeat([5, 10, 20, 40], [50, 30, 15, 5])), 4).tolist() == [5, 10, 40]
    with_two_long = np.append(np.repeat(np.arange(1, 101), 2), [300, 300])  # quantiles need 1.6 times the positions
    assert bucket_widths(np.bincount(with_two_long), 4).tolist() == [25, 50, 100, 300]


@pytest.mark.parametrize("num_buckets", [2, 8])
def test_a_few_long_pairs_do_not_widen_the_batches_of_short_ones(num_buckets):
    lengths = np.append(np.resize(np.arange(1, 21), 1000), np.full(10, 500))
    ids = np.full(lengths.sum(), A, np.int32)
    sentences = Sentences(ids, np.append(0, np.cumsum(lengths)))
    options = {"num_buckets": num_buckets, "corpus": Corpus(sentences, sentences)}
    for sources in (
        [source for source, _ in epoch_of(make_batches(batch_size=16, **options), 0)],
        [source for source, _ in epoch_of(make_batches(batch_size=5000, batch_type="tokens", **options), 0)],
        [source for _, source in decoding_batches(sentences, batch_size=16, num_buckets=num_buckets)],
    ):
        assert sum(source.shape[1] > 20 for source in sources) == 1
        assert len({source.shape for source in sources}) <= num_buckets
        assert sum((source != PAD).sum() for source in sources) == len(ids)


@pytest.mark.parametrize("options", [{}, {"batch_size": 40, "batch_type": "tokens"}])
def test_an_epoch_has_each_pair_exactly_once(window, options):
    corpus, batches = make_corpus(), make_batches(**options)
    expected = {1000 + i: (corpus.source[i].tolist(), corpus.target[i].tolist()) for i in range(len(corpus))}
    pairs = {}
    for source, target in epoch_of(batches, 3):
        assert source.shape == target.shape
        for source_row, target_row in zip(source, target, strict=True):
            source_ids, target_ids = source_row[source_row != PAD].tolist(), target_row[target_row != PAD].tolist()
            assert bool(source_ids) == bool(target_ids)
            if source_ids:
                assert source_ids[0] not in pairs
                pairs[source_ids[0]] = (source_ids, target_ids)
    assert pairs == expected
    assert batches.pairs == 53


def test_only_the_last_batch_of_a_window_is_filled_up_and_its_padding_comes_last():
    rows = [(source != PAD).any(1) for source, _ in epoch_of(make_batches(), 0)]
    assert sum(row.sum() for row in rows) == 53
    assert all((np.diff(row.astype(int)) <= 0).all() for row in rows)
    assert sum(not row.all() for row in rows) == 1  # 53 is no multiple of 4


@pytest.mark.parametrize(("options", "most_tokens"), [({}, None), ({"batch_size": 60, "batch_type": "tokens"}, 60)])
def test_there_are_as_many_shapes_as_buckets_of_at_most_batch_size_tokens_per_side(window, options, most_tokens):
    batches = make_batches(**options)
    shapes = {(source.shape, target.shape) for epoch in range(3) for source, target in epoch_of(batches, epoch)}
    rows = [most_tokens // max(widths) if most_tokens else 4 for widths in batches.widths]
    assert shapes == {
        ((number, source), (number, target))
        for number, (source, target) in zip(rows, batches.widths.tolist(), strict=True)
    }
    assert len(shapes) == 3
    with pytest.raises(DataError, match=r"training.batch_size: .*5 tokens .*\d+-token"):
        make_batches(batch_size=5, batch_type="tokens")


@pytest.mark.parametrize(("short_side", "long_side"), [("source", "target"), ("target", "source")])
def test_a_side_that_is_always_shorter_is_padded_less(window, short_side, long_side):
    """A decoder runs over all positions of the padded targets, so that each costs time."""
    corpus = make_corpus()
    short = Sentences.from_ids([[5] * (index % 3) + [EOS] for index in range(len(corpus))])
    batches = make_batches(corpus=dataclasses.replace(corpus, **{short_side: short}))
    seen = np.zeros([3, 2], int)
    for source, target in epoch_of(batches, 0):
        sides = {"source": source, "target": target}
        assert sides[short_side].shape[1] <= 3 < sides[long_side].shape[1]
        bucket = batches.widths.tolist().index([source.shape[1], target.shape[1]])
        seen[bucket] = np.maximum(seen[bucket], [(side != PAD).sum(1).max() for side in (source, target)])
    np.testing.assert_array_equal(np.maximum.accumulate(seen), batches.widths)


def test_batches_hold_little_padding():
    batches = make_batches(batch_size=16, num_buckets=8, corpus=make_corpus(pairs=4000, longest=100))
    real = total = 0
    for source, target in epoch_of(batches, 0):
        real += np.maximum((source != PAD).sum(1), (target != PAD).sum(1)).sum()
        total += len(source) * max(source.shape[1], target.shape[1])
    assert real / total > 0.9


def test_pairs_over_the_limits_are_left_out(window):
    corpus = make_corpus()
    fits = (corpus.source.lengths() <= 9) & (corpus.target.lengths() <= 12)
    assert 10 < fits.sum() < 45
    batches = make_batches(max_source_length=9, max_target_length=12)
    assert batches.pairs == fits.sum()
    assert batches.longest_source == 9
    indices = {row[0] - 1000 for source, _ in epoch_of(batches, 0) for row in source if row[0]}
    assert indices == set(np.flatnonzero(fits))
    with pytest.raises(DataError, match="data.max_source_length"):
        make_batches(max_source_length=1, max_target_length=1, corpus=make_corpus(pairs=3, seed=1))


def test_the_order_is_a_function_of_seed_and_epoch(window):
    first = make_batches()
    epoch_of(first, 0)
    assert as_lists(epoch_of(first, 1)) == as_lists(epoch_of(make_batches(), 1))
    assert as_lists(epoch_of(first, 1)) != as_lists(epoch_of(first, 0))
    assert as_lists(epoch_of(first, 1)) != as_lists(epoch_of(make_batches(seed=6), 1))


def test_a_resumed_stream_yields_the_same_remaining_batches(window):
    batches = make_batches()
    uninterrupted = list(itertools.islice(batches.stream(0, 0, 0), 40))
    for start in (1, 29):
        resumed = list(itertools.islice(batches.stream(*uninterrupted[start - 1][1]), 40 - start))
        assert as_lists([ids for ids, _ in resumed]) == as_lists([ids for ids, _ in uninterrupted[start:]])
        assert [place for _, place in resumed] == [place for _, place in uninterrupted[start:]]
    last_epoch = uninterrupted[-1][1][0]
    assert last_epoch >= 2


def test_streaming_shapes_are_few_whatever_the_sentences(vocabulary):
    shapes = set()
    for lengths in ([3], [8], [9], [3, 40, 5], [100] * 7, [400] * 3):
        sentences = Sentences.from_lines([" ".join("a" * (length - 1)) for length in lengths], vocabulary)
        batches = list(streaming_batches(sentences, batch_size=4))
        assert sorted(index for members, _ in batches for index in members) == list(range(len(lengths)))
        longest = [max(lengths[index] for index in members) for members, _ in batches]
        assert longest == sorted(longest)  # short sentences do not wait for long ones
        for members, ids in batches:
            shapes.add(ids.shape)
            for row, index in zip(ids, members, strict=False):
                assert row[row != PAD].tolist() == sentences[index].tolist()
    assert shapes == {(1, 8), (1, 16), (4, 8), (1, 64), (4, 128), (2, 512), (1, 512)}


def test_decoding_covers_each_sentence_once_and_longest_first():
    sentences = make_corpus().source
    batches = list(decoding_batches(sentences, batch_size=8, num_buckets=3))
    order = np.concatenate([members for members, _ in batches])
    assert order.tolist() == sorted(range(53), key=lambda i: -sentences.lengths()[i])  # equal lengths keep their order
    assert len({ids.shape for _, ids in batches}) <= 3
    for members, ids in batches:
        assert ids.shape[0] == 8
        assert (ids[len(members) :] == PAD).all()
        for row, index in zip(ids, members, strict=False):
            assert row[: len(sentences[index])].tolist() == sentences[index].tolist()
            assert (row[len(sentences[index]) :] == PAD).all()
    assert len(batches[-1][0]) == 53 % 8


@pytest.mark.parametrize("by_characters", [False, True])
def test_the_recipes_for_own_tokens_make_a_vocabulary_that_is_accepted(by_characters, tmp_path):
    page = (ROOT / "docs/reference/files.md").read_text("utf-8")
    section = page.partition("## Data that already consists of tokens")[2]
    words, characters = re.findall(r"```\n(.*?)```", section, re.DOTALL)[:2]
    text = "10\u00a0000 <s> cats <unk>\ttabs\r\n\n<pad> </s>  caf\u00e9 caf\u00e8 cats\n\u3000 a\u2028b \x00\r\n"
    for name in ("train.en", "train.source", "train.target"):
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    recipe = words if not by_characters else characters + words
    settings = {"cwd": tmp_path, "env": {**os.environ, "LC_ALL": "C.UTF-8"}}
    subprocess.run(["bash", "-e", "-o", "pipefail", "-c", recipe], **settings, check=True)
    vocabulary = read_vocabulary(str(tmp_path))
    sentences = Sentences.from_lines(read_lines(str(tmp_path / "train.source")), vocabulary)
    known = [vocabulary.tokens[i] for i in sentences.ids if i != EOS]
    if by_characters:
        assert UNK not in sentences.ids
        assert {"\u00a0", "\u2581", "\u3000"} <= set(vocabulary.tokens)
    else:
        unknown = "<unk>"  # what the special tokens are in text
        assert known[:5] == ["10\u00a0000", unknown, "cats", unknown, "tabs"]
        assert known[5:] == [unknown, unknown, "caf\u00e9", "caf\u00e8", "cats", "\u3000", "a\u2028b", "\x00"]


@pytest.mark.parametrize("block", [7, 1 << 20])
def test_lengths_are_regressed_on_pairs_that_are_not_skipped(monkeypatch, block):
    monkeypatch.setattr(batches, "_SCANNED_AT_ONCE", block)
    pairs = make_corpus()
    source, target = pairs.source.lengths(), pairs.target.lengths()
    fits = target <= 6
    assert 2 < fits.sum() < len(pairs)
    slope, intercept = np.polyfit(source[fits], np.maximum(source, target)[fits], 1)
    line = TrainingBatches(pairs, batch_size=2, num_buckets=1, seed=1, max_target_length=6).length_regression()
    assert line == pytest.approx((intercept, slope))


def test_sources_of_one_length_have_a_memory_length_that_does_not_depend_on_the_source():
    pairs = Corpus(*(Sentences.from_ids(ids) for ids in ([[A, EOS]] * 2, [[A, B, EOS], [EOS]])))
    assert TrainingBatches(pairs, batch_size=2, num_buckets=1, seed=1).length_regression() == (2.5, 0.0)
