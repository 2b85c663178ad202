"""Work for which memory or disk is too small is refused before it begins, and long work is announced."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.models import make_model
from helpers.runs import NO_STRATEGY

from memattn import config as configs
from memattn import resources
from memattn.config import DecodingConfig
from memattn.data import task_corpus
from memattn.data.batches import bucket_widths
from memattn.errors import ConfigError
from memattn.runs import building
from memattn.search.searcher import Searcher
from memattn.sweeps.expand import expand
from memattn.training import needs
from memattn.training.trainer import Trainer, train

MANY = 2**31 - 1
NEURAL_GPU = {"model.kind": "neural_gpu"}


@pytest.fixture
def machine(monkeypatch):
    """machine(memory, free) feigns a machine with `memory` bytes of memory and `free` bytes on each disk."""

    def set_up(memory, free=10**10):
        monkeypatch.setattr(resources, "total_memory", lambda: memory)
        monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))

    return set_up


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"data.copy.train_examples": MANY},
            "data.copy: a corpus of 2,147,483,659 pairs of up to 5 takes",
        ),
        (
            {"data.copy.valid_examples": MANY},
            "data.copy: a corpus of 2,147,483,707 pairs of up to 5 takes",
        ),
        (
            {"data.copy.max_length": MANY},
            "data.copy: a corpus of 72 pairs of up to 2,147,483,647",
        ),
        ({"data.copy.num_symbols": MANY}, "data.copy.num_symbols: a vocabulary of 2,147,483,647 symbols takes about "),
        (
            {"model.layers": 100_000},
            "model.layers: the graph of 100,000 layers takes about 1 TB",
        ),
        ({"model.units": MANY}, "model: training .* parameters or more takes about .* and the memory here is"),
        ({"model.encoder_units": MANY}, "model: training .* parameters or more"),
        ({"model.embedding_size": MANY}, "model: training .* parameters or more"),
        ({"model.attention.num_slots": MANY}, "model: training .* parameters or more"),
        ({"model.attention": {"name": "linear", "projection": MANY}}, "model: training .* parameters or more"),
        ({**NEURAL_GPU, "model.units": MANY}, "model: training .* parameters or more"),
        (
            {"training.accumulate": MANY},
            "training.accumulate: an update of 17,179,869,176 pairs with up to 6 tokens",
        ),
        (
            {"training.batch_size": MANY},
            "training.batch_size: an update of 2,147,483,647 pairs with up to 6 tokens",
        ),
        ({"decoding.batch_size": MANY}, "decoding.batch_size: decoding .* sources of up to [56] tokens, 1 hypotheses"),
    ],
    ids=str,
)
def test_training_that_memory_cannot_hold_is_refused_before_it_begins(tiny_config, tmp_path, machine, changes, message):
    machine(4 * 10**9)
    with pytest.raises(ConfigError, match=f"^{message}"):
        train(tiny_config(changes), str(tmp_path / "run"), NO_STRATEGY)
    assert not (tmp_path / "run").exists()
    if message.startswith("data"):
        assert not (tmp_path / "data").exists()


def test_a_training_step_that_memory_cannot_hold_is_refused(tiny_config, tmp_path, machine):
    machine(12 * 10**6)
    message = "training.batch_size: a step on 8 pairs with up to 997 tokens on a side takes about 26.4 MB, and"
    with pytest.raises(ConfigError, match=message):
        train(tiny_config({"data.copy.max_length": 1_000}), str(tmp_path / "run"), NO_STRATEGY)


def test_active_memory_needs_memory_that_grows_with_the_square_of_the_length(tiny_config, tmp_path, machine):
    machine(10**9)
    config = tiny_config({"data.copy.max_length": 1_000, "model.encoder": "cgru"})
    with pytest.raises(ConfigError, match="training.batch_size: a step on 8 pairs .* takes about 1.79 GB, and"):
        train(config, str(tmp_path / "run"), NO_STRATEGY)


def test_short_targets_need_less_memory_than_long_ones(tiny_config, tmp_path, machine):
    task = {"name": "selective_copy", "max_length": 1_000, "marked": 2, "train_examples": 60, "valid_examples": 12}
    machine(10_500_000)
    message = "training.batch_size: a step on 8 pairs with up to 982 tokens on a side takes about 12.9 MB, and"
    with pytest.raises(ConfigError, match=message):
        train(tiny_config({"data.copy": None, "data.task": task}), str(tmp_path / "run"), NO_STRATEGY)


def test_a_corpus_for_which_the_disk_is_too_small_is_refused_before_it_is_written(tiny_config, tmp_path, machine):
    machine(10**12, free=1_000)
    task = tiny_config({"data.copy.train_examples": 1_000}).data.generated
    with pytest.raises(ConfigError, match="data.copy: .*5.08 kB"):
        task_corpus.prepare(task, str(tmp_path / "new" / "data"))
    assert not (tmp_path / "new").exists()


def test_a_large_corpus_is_announced(tiny_config, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(task_corpus, "_LARGE", 100)
    task_corpus.prepare(tiny_config().data.generated, str(tmp_path / "new"))
    assert "new: writing 72 pairs of up to 5, at least 376 bytes" in capsys.readouterr().out


def test_text_that_memory_cannot_hold_is_refused(tmp_path, machine):
    (tmp_path / "train.source").write_text("a b c\n" * 100)
    needs.check_text(str(tmp_path))
    machine(1_000)
    with pytest.raises(ConfigError, match="data.folder: .*train.source"):
        needs.check_text(str(tmp_path))


def test_a_disk_without_room_for_a_checkpoint_is_reported_before_the_first_step(tiny_config, tmp_path, machine):
    trainer = Trainer(tiny_config(), str(tmp_path / "run"), NO_STRATEGY)
    machine(10**10, free=1_000)
    with pytest.raises(ConfigError, match="--run_dir: .*checkpoint .*1 kB"):
        trainer.train()
    assert trainer.run.progress.step == 0


def test_long_work_is_announced(tiny_config, tmp_path, capsys):
    Trainer(tiny_config({"training.accumulate": 50}), str(tmp_path / "run"), NO_STRATEGY)
    assert "run: an update reads 400 pairs, 6.67 times the corpus" in capsys.readouterr().out
    deep = tiny_config({"model.layers": 30})
    assert needs.check_model(deep.model, 8) == [
        "the first step with each padded length takes minutes, as the model has 30 layers"
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"model.attention": {"name": "bahdanau"}, "model.layers": 2},
        {"model.encoder": "gru", "model.decoder": "rnnsearch", "model.tie_embeddings": "source_target"},
        {"model.encoder": "gru", "model.decoder": "gru", "model.layers": 2},
        {"model.encoder": "cgru", "model.layers": 2},
        NEURAL_GPU,
    ],
    ids=str,
)
def test_the_lower_bound_on_parameters_holds_and_is_not_far_off(tiny_config, changes):
    config = tiny_config(changes)
    parameters = building.build_model(config, 9, 5).count_params()
    assert parameters / 20 < needs.least_parameters(config.model, 9) <= parameters


def test_a_search_that_memory_cannot_hold_is_refused(machine):
    searcher = Searcher(make_model("none", {}), DecodingConfig(beam_size=10, jit_compile=False))
    searcher.check(32, 100)
    machine(10**9)
    with pytest.raises(ConfigError, match="decoding.batch_size: .*1,000,000 sources"):
        searcher.check(10**6, 100)
    machine(10)
    with pytest.raises(ConfigError, match="decoding.batch_size: .*2 sources"):
        searcher(np.ones([2, 3], np.int32))


def test_more_buckets_than_sentences_change_nothing():
    lengths = np.array([3, 3, 5, 9, 9, 20])
    assert bucket_widths(lengths, 6).tolist() == bucket_widths(lengths, 2**31).tolist() == [3, 5, 9, 20]


def test_a_sweep_of_too_many_runs_is_refused(write_config):
    keys = ("seed", "batch_size", "max_steps", "log_every", "patience")
    grid = {f"training.{key}": list(range(1, 101)) for key in keys}
    config = configs.load(write_config({"sweep": {"grid": grid}}), [])
    with pytest.raises(ConfigError, match="^sweep: .*10,000,000,000 runs"):
        expand(config)


def test_memory_is_limited_by_that_of_the_container(tmp_path, monkeypatch):
    installed = resources.total_memory.__wrapped__()
    unlimited, limited = tmp_path / "max", tmp_path / "limit"
    unlimited.write_text("max\n")
    monkeypatch.setattr(resources, "_CONTAINER_LIMITS", [str(unlimited), str(limited)])
    assert resources.total_memory.__wrapped__() >= installed
    limited.write_text("123456\n")
    assert resources.total_memory.__wrapped__() == 123456
    sizes = {12: "12 bytes", 3_400: "3.4 kB", 999_700: "1 MB", 25e9: "25 GB", 4e18: "4e+03 PB"}
    assert {size: resources.readable(size) for size in sizes} == sizes
