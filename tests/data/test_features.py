"""Corpora whose sources are vectors: their shards, their batches, and runs on them."""

import os
import re
import resource

import numpy as np
import pytest
from helpers.runs import NO_STRATEGY, TINY, assert_same_run, evaluate, replicas, untrained

from memattn import config as configs
from memattn.data import corpus, features
from memattn.data.batches import TrainingBatches, decoding_batches, streaming_batches
from memattn.data.sentences import Corpus, Sentences
from memattn.data.vocabulary import EOS
from memattn.errors import ConfigError, DataError
from memattn.runs.trained import load
from memattn.serving.saved_model import export
from memattn.serving.scorer import PairScorer
from memattn.serving.translator import from_trained
from memattn.training.trainer import Trainer, train

F, LETTERS = 4, "abcd"
FEATURES = {
    "data": {"source": "features", "num_buckets": 1},
    "model": {**TINY["model"], "encoder_layers": 2, "encoder_reduce": [2], "spec_augment": 1},
    "training": {**TINY["training"], "batch_type": "tokens", "batch_size": 120},
    "decoding": TINY["decoding"],
}


def drawn(number, seed=0):
    """Pairs of a source of 2 to 20 random vectors and a target of one to five letters."""
    random = np.random.RandomState(seed)
    return [
        (random.normal(size=[random.randint(2, 21), F]), " ".join(random.choice([*LETTERS], random.randint(1, 6))))
        for _ in range(number)
    ]


def write_corpus(folder, sizes=(60, 12)):
    """Writes a corpus of features whose vocabulary is the letters; returns its path."""
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("".join(f"{letter}\n" for letter in LETTERS))
    for split, size in zip(("train", "valid"), sizes, strict=True):
        pairs = drawn(size, seed=size)
        features.write(str(folder), split, [source for source, _ in pairs])
        (folder / f"{split}.target").write_text("".join(f"{target}\n" for _, target in pairs))
    return str(folder)


def read(folder, split="train"):
    return corpus.read_corpus(folder, split, corpus.read_vocabulary(folder), "features")


def config_of(folder, **changes):
    return configs.from_dict(
        {**FEATURES, "data": {**FEATURES["data"], "folder": folder}},
        [f"{key}={value}" for key, value in changes.items()],
    )


def test_shards_give_back_normalized_sources(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "SHARD_SIZE", 7)
    sources = [source for source, _ in drawn(20)]
    features.write(str(tmp_path), "train", sources)
    mean, deviation = np.arange(F), np.arange(1, F + 1)
    features.write_statistics(str(tmp_path), mean, deviation)
    assert len(list(tmp_path.glob("train.source.0*.npy"))) == 3
    stored = features.read(str(tmp_path), "train")
    assert len(stored) == 20
    for index, source in enumerate(sources):
        np.testing.assert_allclose(stored[index], (source - mean) / deviation, atol=1e-6)
    assert stored.lengths().tolist() == list(map(len, sources))
    batch = stored.padded(np.array([19, 3]), 3, 25)
    assert batch.shape == (3, 25, F)
    np.testing.assert_array_equal(batch[1, : len(sources[3])], stored[3])
    assert np.isnan(batch[1, len(sources[3]) :]).all()
    assert np.isnan(batch[2]).all()
    assert stored.metadata()["source_features"] == F
    features.write(str(tmp_path), "train", sources[:3])  # in place of the others
    assert len(features.read(str(tmp_path), "train")) == 3


def test_a_shard_that_does_not_fit_on_the_disk_is_an_error(tmp_path):
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, most[1]))  # bytes of a file; stands for a full disk
    try:
        with pytest.raises(OSError, match="File too large: .*train.source.00000.npy"):
            features.write(str(tmp_path), "train", [np.zeros([99, F])])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert os.listdir(tmp_path) == []


def test_checksum_and_metadata_follow_content_and_statistics(tmp_path):
    sources = [source for source, _ in drawn(5)]
    changed_sources = [*sources[:-1], sources[-1] + 1e-3]
    stored = []
    for matrices, mean in ((sources, 0), (sources, 0), (changed_sources, 0), (sources, 1)):
        folder = str(tmp_path / str(len(stored)))
        os.mkdir(folder)
        features.write(folder, "train", matrices)
        features.write_statistics(folder, np.full(F, mean), np.ones(F))
        stored.append(features.read(folder, "train"))
    first, same, changed, shifted = stored
    assert first.checksum() == same.checksum()
    assert len({each.checksum() for each in stored}) == 3
    assert first.metadata() == changed.metadata() != shifted.metadata()


def array(name, content):
    return lambda folder: np.save(folder / name, content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "train.source.starts.npy").unlink(), "train.source.starts.npy: missing"),
        (array("train.source.starts.npy", np.array([0, 3])), "starts.npy: does not match the shards"),
        (array("train.source.00000.npy", np.zeros(5, np.float32)), "not a two-dimensional array of floats"),
        (array("source.statistics.npy", np.zeros([2, 9], np.float32)), "or these source.statistics.npy"),
        (
            lambda folder: features.write(str(folder), "train", [np.full([2, F], np.inf)] * 2),
            "1 holds a number that is n",
        ),
        (lambda folder: (folder / "train.target").write_text("a\n"), "has 2 lines and .*train.target has 1"),
    ],
)
def test_a_damaged_corpus_is_refused(damage, message, tmp_path):
    folder = write_corpus(tmp_path / "corpus", sizes=(2, 2))
    damage(tmp_path / "corpus")
    with pytest.raises(DataError, match=message):
        read(folder).source.padded(np.array([1, 0]), 2, 30)


def test_a_short_source_with_a_long_target_may_complete_a_batch_of_long_sources(tmp_path):
    features.write(str(tmp_path), "train", [np.ones([4, F]), np.ones([9, F])])
    targets = Sentences.from_ids([[5, 5, 5, EOS], [5, EOS]])
    batches = TrainingBatches(
        Corpus(features.read(str(tmp_path), "train"), targets), batch_size=2, num_buckets=2, seed=1
    )
    ((source, target),) = batches.window(0, 0)
    assert (source.shape, target.shape) == ((2, 9, F), (2, 4))


def test_batches_of_decoding_and_scoring_hold_every_source_once(tmp_path):
    pairs = read(write_corpus(tmp_path / "corpus"))
    for batches in (
        list(decoding_batches(pairs.source, batch_size=8, num_buckets=2)),
        list(streaming_batches(pairs.source, pairs.target, batch_size=8)),
    ):
        assert sorted(index for members, *_ in batches for index in members) == list(range(60))
        for members, source, *_ in batches:
            lengths = (~np.isnan(source[:, :, 0])).sum(1)
            np.testing.assert_array_equal(lengths[: len(members)], pairs.source.lengths()[members])


@pytest.mark.slow
def test_a_run_on_features_resumes_bit_for_bit_and_is_evaluated(tmp_path, capsys):
    config = config_of(write_corpus(tmp_path / "corpus"))
    assert train(config, str(tmp_path / "uninterrupted"), NO_STRATEGY) == 0
    assert re.search(r"source +[0-9]+ vectors", capsys.readouterr().out)
    shorter = config_of(config.data.folder, **{"training.max_steps": 3})
    assert train(shorter, str(tmp_path / "resumed"), NO_STRATEGY) == 0
    assert train(config, str(tmp_path / "resumed"), NO_STRATEGY) == 0
    assert_same_run(tmp_path / "uninterrupted", tmp_path / "resumed")
    assert evaluate(tmp_path / "resumed", "decoding.coverage_penalty=0.1")["sentences"] == 12
    trained = load([str(tmp_path / "resumed")], [], None)
    for use in (from_trained, PairScorer, lambda model: export(model, str(tmp_path / "exported"))):
        with pytest.raises(ConfigError, match="needs sources of text, and the run's data.source is features"):
            use(trained)


@pytest.mark.slow
def test_other_statistics_than_those_of_the_run_are_refused(tmp_path):
    folder = write_corpus(tmp_path / "corpus")
    run = untrained(config_of(folder), tmp_path / "run")
    features.write_statistics(folder, np.ones(F), np.ones(F))
    with pytest.raises(ConfigError, match="data.folder: the sources of .* have .*; prepare it with --vocabulary_of"):
        evaluate(run)
    with pytest.raises(ConfigError, match="training.init_from: the vocabulary, BPE or features of"):
        train(config_of(folder, **{"training.init_from": run}), str(tmp_path / "tuned"), NO_STRATEGY)


@pytest.mark.long
def test_replicas_train_on_features_as_one_device_does(tmp_path):
    config = config_of(write_corpus(tmp_path / "corpus"), **{"model.spec_augment": 0, "model.dropout": 0.0})
    losses = []
    for name, strategy in {"one": NO_STRATEGY, "two": replicas(2)}.items():
        run = Trainer(config, str(tmp_path / name), strategy).run
        batch = next(run.batches.window(0, 0))
        losses.append(run.training_step([batch], 0, 0.01).numpy())
    np.testing.assert_allclose(*losses, rtol=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.tie_embeddings": "all"}, "model.tie_embeddings: all needs sources of tokens"),
        ({"decoding.lexicon": "lexicon.tsv"}, "decoding.lexicon: needs data.source: tokens"),
        ({"data.folder": "null", "data.copy": "{}"}, "data.source: features are for a prepared corpus; data.copy has"),
    ],
)
def test_settings_that_need_tokens_are_refused_with_features(changes, message):
    with pytest.raises(ConfigError, match=message):
        config_of("data/mine", **changes)


def test_features_are_not_read_as_tokens(tmp_path):
    folder = write_corpus(tmp_path / "corpus")
    with pytest.raises(ConfigError, match="data.source: tokens, but the sources of .* are features"):
        corpus.read_corpus(folder, "train", corpus.read_vocabulary(folder))
