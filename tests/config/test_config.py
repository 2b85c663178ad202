"""Loading a config: defaults, overrides, options of mechanisms, sweeps, and saving."""

import dataclasses

import pytest

from memattn import config as configs
from memattn.attention import MECHANISMS, BahdanauAttention
from memattn.errors import ConfigError
from memattn.plain_values import differences
from memattn.sweeps.runs import expand

COPY = "data: {copy: {}}\n"


@pytest.fixture
def load(tmp_path):
    """load(text, overrides..., name=text) loads config.yaml with a text, and with other configs by name beside it."""

    def load(text=COPY, *overrides, **others):
        for name, content in {"config": text, **others}.items():
            (tmp_path / f"{name}.yaml").write_text(content, encoding="utf-8")
        return configs.load(str(tmp_path / "config.yaml"), list(overrides))

    return load


@pytest.mark.parametrize("mapping", ["model: {}", "training: ~", "sweep:"])
def test_an_empty_mapping_has_its_defaults(load, mapping):
    assert load(COPY + mapping) == load()


def test_options_of_a_mechanism_get_the_defaults_of_its_constructor(load):
    attention = load(COPY + "model: {attention: {name: windowed_memory, num_slots: 4}}").model.attention
    assert attention == {"name": "windowed_memory", "num_slots": 4, "read": "additive", "read_units": 128}


@pytest.mark.parametrize(("text", "number"), [("1e-4", 1e-4), ("2.e3", 2e3), ("3", 3.0)])
def test_numbers_may_be_written_in_several_ways(load, text, number):
    for config in (
        load(COPY + f"training: {{learning_rate: {text}}}"),
        load(COPY, f"training.learning_rate={text}"),
    ):
        assert config.training.learning_rate == number
        assert type(config.training.learning_rate) is float


MEMORY = COPY + "model: {units: 3, layers: 4, attention: {name: memory, num_slots: 4}}\n"
SHORT = "data: {num_buckets: 3, copy: {max_length: 5}}\n"


def value_of(config, key):
    """The value of a dotted key; None if the config or a section in it does not have the key."""
    value = configs.to_dict(config)
    for part in key.split("."):
        value = None if value is None else value.get(part)
    return value


@pytest.mark.parametrize(
    ("below", "overrides", "expected"),
    [
        (MEMORY, ["model.units=5", "training.seed=9", "model.units=6"], {"model.units": 6, "model.layers": 4}),
        (MEMORY, ["model={units: 5}"], {"model.units": 5, "model.layers": 2}),
        ("model: {units: 3}\n", ["data.copy.max_length=2"], {"model.units": 3, "data.copy.max_length": 2}),
        (COPY, ["model.attention.num_slots=3"], {"model.attention.name": "memory", "model.attention.num_slots": 3}),
        (MEMORY, ["model.attention.name=memory"], {"model.attention.num_slots": 4}),
        (MEMORY, ["model.attention.name=bahdanau"], {"model.attention.cache_keys": True, "model.units": 3}),
        (SHORT, ["data.task.name=sort"], {"data.copy": None, "data.task.name": "sort", "data.num_buckets": 3}),
        (SHORT, ["data.num_buckets=4", "data.task=null"], {"data.copy.max_length": 5, "data.num_buckets": 4}),
        (SHORT, ["data.folder=here"], {"data.copy.max_length": 5, "data.folder": "here"}),
        ("data: {task: {name: sort}}\n", ["data.copy={max_length: 7}"], {"data.copy.max_length": 7, "data.task": None}),
    ],
)
def test_an_override_keeps_all_that_it_does_not_replace(load, below, overrides, expected):
    config = load(below, *overrides)
    assert {key: value_of(config, key) for key in expected} == expected


@pytest.mark.parametrize("order", [1, -1])
def test_overrides_of_a_mapping_and_within_it_may_come_in_either_order(load, order):
    overrides = ["model.attention.name=bahdanau", "model.attention.cache_keys=false"]
    assert load(MEMORY, *overrides[::order]).model.attention == {"name": "bahdanau", "cache_keys": False}
    overrides = ["model={units: 5, attention: {name: memory, num_slots: 9}}", "model.layers=1"]
    config = load(COPY, *overrides[::order])
    assert (config.model.units, config.model.layers) == (5, 1)


def test_the_runs_of_a_sweep_are_its_cells_and_the_union_of_its_grids(load):
    text = COPY + (
        "sweep:\n"
        "  grid: {training.seed: [1, 2], data.copy.max_length: [5, 6]}\n"
        "  cells:\n"
        "    - {model.attention.name: bahdanau}\n"
        "    - {model.attention: {name: memory, num_slots: 4}}\n"
        "  grids:\n"
        "    - {model.attention.num_slots: [4, 8], model.layers: [1]}\n"
        "    - {model.attention.num_slots: [16]}\n"
        "    - {model.attention.num_slots: [8, 16]}\n"
    )
    runs = expand(load(text))
    points = ["num_slots=4-layers=1", "num_slots=8-layers=1", "num_slots=16", "num_slots=8"]
    assert list(runs) == [
        f"{run}-seed={seed}-max_length={length}"
        for run in ("bahdanau", "memory-num_slots=4", *points)
        for seed in (1, 2)
        for length in (5, 6)
    ]
    run = runs["num_slots=8-layers=1-seed=2-max_length=5"]
    assert (run.training.seed, run.data.copy.max_length, run.model.attention["num_slots"]) == (2, 5, 8)
    assert runs["bahdanau-seed=1-max_length=6"].model.attention == {"name": "bahdanau", "cache_keys": True}
    assert all(run.sweep is None for run in runs.values())


def test_a_run_of_a_sweep_is_the_config_with_the_same_overrides(load):
    config = load(COPY + "training: {seed: 7}\nsweep: {grid: {model.attention.name: [bahdanau], model.units: [3]}}")
    run = load(COPY, "training.seed=7", "model.attention.name=bahdanau", "model.units=3")
    assert expand(config) == {"bahdanau-units=3": run}


def test_listing_the_runs_of_a_sweep_changes_neither_their_names_nor_the_sweep(load):
    cells = "cells: [{model: {layers: 1, attention: {name: bahdanau}}}]"
    config = load(COPY + f"sweep: {{{cells}, grid: {{model.attention.cache_keys: [true, false]}}}}")
    names = list(expand(config))
    assert list(expand(config)) == names
    assert config.sweep.cells == [{"model": {"layers": 1, "attention": {"name": "bahdanau"}}}]


def test_names_of_runs_are_single_folders(load):
    runs = expand(load(COPY + 'sweep: {grid: {data.folder: [../a b, c/d, "a\\nb"]}}'))
    assert list(runs) == ["folder=.._ab", "folder=c_d", "folder=a_b"]


def test_runs_are_named_by_full_keys_where_the_last_parts_coincide(load):
    sizes = "cells: [{training.batch_size: 32}, {decoding.batch_size: 16}, {decoding.batch_size: 32}]"
    runs = expand(load(COPY + f"sweep: {{{sizes}}}"))
    assert list(runs) == ["batch_size=32", "batch_size=16", "decoding.batch_size=32"]
    assert runs["decoding.batch_size=32"].decoding.batch_size == 32
    folders = "cells: [{data.folder: a b}, {data.folder: ab}, {data.folder: a  b}]"
    with pytest.raises(ConfigError, match="^sweep: .*data.folder=ab; change one$"):
        expand(load(f"data: {{folder: x}}\nsweep: {{{folders}}}"))


def test_equal_points_of_two_grids_give_a_single_run_also_if_a_default_is_written(load):
    runs = expand(load(COPY + "sweep: {grids: [{model.units: [3, 4]}, {model.units: [4], model.layers: [2, 1]}]}"))
    assert list(runs) == ["units=3", "units=4", "units=4-layers=1"]
    assert [run.model.layers for run in runs.values()] == [2, 2, 1]


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ("grid: {model.units: [3, 4, 3]}", r"^sweep: .*: units=3; change one$"),
        ("cells: [{model.attention: {name: luong}}, {model.attention.name: luong}]", "^sweep: .*: luong; change one$"),
        ("cells: [{model.units: 3}, {model.units: 3, model.layers: 2}]", "^sweep: .*: units=3 and units=3-layers=2; "),
        ("grid: {model.units: [3]}, cells: [{model.units: 4}]", r"sweep.cells\[0\].model.units: in sweep.grid too"),
        ("grid: {model.units: [3]}, grids: [{model.units: [4]}]", r"sweep.grids\[0\].model.units: in sweep.grid too"),
        ("grid: {model.unit: [3]}", r"^sweep run unit=3: model.unit: unknown key; did you mean units\?"),
        ("cells: [{model.units.x: 3}]", "^sweep run x=3: model.units: expected an int, not {'x': 3}"),
        ("grids: [{model.units: [3, 0]}]", "^sweep run units=0: model.units: must be at least 1, not 0"),
        ("grids: 3", "config.yaml:2: sweep.grids: expected a list, not 3$"),
        ("grids: [3]", r":2: sweep.grids\[0\]: expected a mapping of dotted keys to values, not 3$"),
        ("grids: [{model.units: []}]", r":2: sweep.grids\[0\].model.units: expected a list of one value or more, not "),
    ],
)
def test_a_sweep_is_checked_before_its_first_run_starts(load, sweep, message):
    with pytest.raises(ConfigError, match=message):
        expand(load(COPY + f"sweep: {{{sweep}}}"))


def test_a_config_overrides_the_keys_of_its_base(load, tmp_path):
    (tmp_path / "study").mkdir()
    bases = {
        "study/paper": "base: ../all.yaml\nmodel: {attention: {num_slots: 8}}\ntraining: {batch_size: 2, seed: 3}\n",
        "all": "data: {copy: {max_length: 7}}\nmodel: {units: 5, attention: {name: memory, num_slots: 4}}\n",
    }
    text = "base: study/paper.yaml\ntraining: {batch_size: 4}\nmodel: {attention: {encoder_scoring: sigmoid}}\n"
    config = load(text, "training.seed=5", **bases)
    assert (config.data.copy.max_length, config.model.units) == (7, 5)
    assert (config.training.batch_size, config.training.seed) == (4, 5)
    expected = {"name": "memory", "num_slots": 8, "encoder_scoring": "sigmoid", "decoder_scoring": "softmax"}
    assert expected.items() <= config.model.attention.items()
    assert "base" not in configs.to_dict(config)


def test_another_kind_of_model_drops_the_keys_that_it_does_not_have(load):
    below = COPY + "model: {layers: 3, mix: false, attention: {name: bahdanau}}\n"
    model = {"kind": "extended", "cell": "cgru", "width": 4, "layers": 3, "units": 9, "dropout": 0.2}
    config = load("base: below.yaml\nmodel: {kind: extended, units: 9}\n", below=below)
    assert configs.to_dict(config)["model"] == model
    for overrides in (["model.kind=extended", "model.units=9"], ["model.units=9", "model.kind=extended"]):
        assert load(below, *overrides) == config
    runs = expand(load(below + "sweep: {cells: [{model.units: 9, model.kind: extended}]}\n"))
    assert list(runs.values()) == [config]
    back = load("base: below.yaml\nmodel: {kind: extended, width: 1}\n", "model.kind=seq2seq", below=below)
    assert (back.model.layers, back.model.mix) == (3, True)


def test_each_run_of_a_sweep_decides_by_its_own_model_whether_xla_compiles(load):
    runs = expand(load(COPY + "model: {kind: extended}\nsweep: {grid: {model.kind: [extended, seq2seq]}}\n")).values()
    assert [(run.training.jit_compile, run.decoding.jit_compile) for run in runs] == [(False, False), ("auto", "auto")]


@pytest.mark.parametrize("changes", ["width: 1", "kind: extended, mix: false", "kind: extendet"])
def test_unknown_kinds_and_keys_of_other_kinds_are_refused(load, changes):
    right = r"is for model.kind: .*|is none of seq2seq, neural_gpu, markovian, extended; did you mean extended\?"
    with pytest.raises(ConfigError, match=rf"config.yaml:2: model.(width|mix|kind): .*({right})"):
        load(COPY + f"model: {{{changes}}}")


def test_a_sweep_replaces_that_of_the_base(load):
    below = COPY + "sweep: {grid: {model.units: [1, 2]}, cells: [{training.seed: 1}]}\n"
    config = load("base: below.yaml\nsweep: {grid: {model.units: [3]}}\n", below=below)
    assert list(expand(config)) == ["units=3"]
    assert list(expand(load("base: below.yaml\n", below=below))) == ["seed=1-units=1", "seed=1-units=2"]
    assert load("base: below.yaml\nsweep: null\n", below=below).sweep is None


def test_an_error_names_the_file_that_holds_the_value(load):
    wrong = COPY + "model:\n  units: 0\n"
    with pytest.raises(ConfigError, match="below.yaml:3: model.units: .*not 0$"):
        load("base: below.yaml\nmodel: {layers: 1}\n", below=wrong)
    assert load("base: below.yaml\nmodel: {units: 1}\n", below=wrong).model.units == 1
    with pytest.raises(ConfigError, match="config.yaml:3: model.units: .*not -1$"):
        load("base: below.yaml\nmodel:\n  units: -1\n", below=wrong)


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("3", r"config.yaml:1: base: expected the path of another config, not 3$"),
        ("nowhere.yaml", r"config.yaml:1: base: no such file: .*nowhere.yaml; shipped configs: .*copy/small"),
        (".", r"config.yaml:1: base: no such file: "),
        ("config.yaml", r"config.yaml:1: base: config.yaml is this file, or has this file as its base"),
        ("other.yaml", r"other.yaml:1: base: ./config.yaml is this file, or has this file as its base"),
    ],
)
def test_an_unusable_base_is_refused(load, base, message):
    with pytest.raises(ConfigError, match=message):
        load(f"base: {base}\n{COPY}", other="base: ./config.yaml\n")


@pytest.mark.parametrize(
    "overrides",
    [
        ["training.learning_rate=1e-7", "training.stop_at=99.5", "sweep={grid: {model.units: [1, 2]}}"],
        ["data={folder: 'a: b # ünï'}", "model.attention={name: luong, scale: 1e-30}", "model.bridge=zero"],
        ["data.folder='1e5'"],  # a str, as are folders named after a commit
    ],
)
def test_a_dumped_config_loads_as_the_same(load, overrides):
    config = load(COPY, *overrides)
    text = configs.dump(config)
    again = load(text)
    assert again == dataclasses.replace(config, sweep=None)
    assert configs.dump(again) == text
    assert configs.to_dict(again) == configs.to_dict(config)


def test_an_argument_without_a_default_is_required(load, monkeypatch):
    class Needy(BahdanauAttention):
        def __init__(self, *, rate: float, **kwargs):
            raise NotImplementedError("checking a config makes no layer")

    monkeypatch.setitem(MECHANISMS, "needy", Needy)
    with pytest.raises(ConfigError, match="model.attention.rate: missing"):
        load(COPY, "model.attention={name: needy}")
    attention = load(COPY, "model.attention={name: needy, rate: 0.5}").model.attention
    assert attention == {"name": "needy", "cache_keys": True, "rate": 0.5}


def test_differences_list_dotted_keys_with_both_values(load):
    theirs = configs.to_dict(load())
    ours = configs.to_dict(load(COPY, "training.seed=2", "model.attention.name=bahdanau"))
    assert differences(theirs, theirs) == []
    assert [str(difference) for difference in differences(theirs, ours)] == [
        "model.attention.name (memory there, bahdanau here)",
        "training.seed (1 there, 2 here)",
    ]
