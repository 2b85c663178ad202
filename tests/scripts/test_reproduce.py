"""Tables and figures are made from made-up runs, and a figure from tiny runs that are trained here; their styles."""

import dataclasses
import json
import os
import re

import pytest
from helpers.repository import ROOT
from helpers.runs import made_up_result, tiny
from helpers.studies import TINY, made_up, make_reproduction, rows_of, run_in_forks, write_study
from matplotlib import image
from studies import family, long_texts, plots, runner
from studies.britz2017 import figures, open_questions, printed, tables, windowed
from studies.output import MISSING, Output
from studies.runs import text_name
from studies.styles import line_styles

from memattn import files
from memattn.config import Config, CopyConfig, DataConfig, Seq2SeqConfig
from memattn.errors import ConfigError, RunError
from memattn.evaluation.styles import STYLES
from memattn.runs.run import Run
from memattn.sweeps.runs import SweepRun

pytestmark = pytest.mark.slow


@pytest.fixture
def output(tmp_path):
    """The output of a study at the scale "small"."""
    return Output(str(tmp_path), "small")


def test_table_1_stands_beside_the_paper(output, capsys):
    runs = made_up("table1", bleu=lambda config: 90.0 if config.model.attention["name"] == "none" else 99.0)
    tables.table_1(output, runs)
    rows = rows_of(output)
    assert [row["model"] for row in rows[:7]] == list(printed.TABLE_1_MODELS)
    assert [row["L"] for row in rows[::7]] == ["5", "10", "20", "40"]
    first, last = rows[0], rows[-1]
    assert [first[key] for key in ("BLEU", "paper L", "paper BLEU", "difference")] == ["90.00", "20", "99.93", ""]
    assert (last["L"], last["paper L"], last["difference"]) == ("40", "200", "")
    assert capsys.readouterr().out.splitlines()[1].endswith(" by length and model (scaled down)")
    by_model = {row["model"]: row for row in files.read_csv(output.path("bleu.csv"))}
    assert list(by_model) == list(printed.TABLE_1_MODELS)
    assert (by_model["none"]["L = 40"], by_model["K=4"]["L = 5"]) == ("90.00", "99.00")
    assert (by_model["none"]["paper: L = 200"], by_model["K=4"]["paper: L = 20"]) == ("32.64", "99.56")


def test_the_target_all_skips_studies_that_a_scale_lacks(command):
    """As a dry run lists them, with their runs."""
    assert runner.available("small") == [name for name in runner.TARGETS if name not in ("pace", "windowed_memory")]
    paper = set(runner.available("paper"))
    assert {"table1", "table2", "figure8"} <= paper
    assert not {"baselines", "pace", "speech", "slots", "family"} & paper
    stdout = command(ROOT, "scripts.reproduce", "all", "--scale=cpu", "--dry_run").stdout
    number = sum(map(len, runner.runs_of(runner.available("cpu"), "cpu").values()))
    assert len([line for line in stdout.splitlines() if line.startswith("| configs/studies/")]) == number > 60
    assert f"{number} runs" in stdout
    assert "- all of configs/studies/table1/cpu.yaml: 21 runs of half an hour to six hours each" in stdout


@pytest.mark.parametrize("name", [*runner.TITLES, "teacher_nine_epochs"])
def test_each_run_has_a_row_and_seeds_are_averaged(name, output):
    target = runner.TARGETS[name]
    runs = [made_up(kind, bleu=lambda config: 50.0 + config.training.seed) for kind in target.kinds]
    target.write(output, *runs)
    assert [row["run"] for row in rows_of(output)] == [run.name for run in runs[-1]]
    seeds = output.path("seeds.csv")
    assert os.path.exists(seeds) == (
        name in ("renormalize", "memory_rows", "teacher_nine_epochs", "baselines_translation")
    )
    if os.path.exists(seeds):
        assert {row["BLEU mean"] for row in files.read_csv(seeds)} == {"52.00"}


def test_softmax_on_both_sides_has_the_smallest_initial_contexts_and_gradients(output, monkeypatch):
    monkeypatch.chdir(ROOT)
    open_questions.first_contexts(output)
    rows = rows_of(output)
    length, slots = 20, 32
    expected = [length / slots, length / 2, 1, 1, length / 2, length / 2, length * slots / 4]
    scales = [float(row["context / mean state"]) for row in rows]
    assert scales == pytest.approx(expected, rel=0.02)
    softmax_on_both_sides, scaled, means, *others = [float(row["gradient of W_alpha"]) for row in rows]
    assert all(gradient > 10 * softmax_on_both_sides for gradient in (scaled, *others))
    assert means < 2 * softmax_on_both_sides


def test_table_2_chooses_scorings_by_validation_and_not_by_test(output):
    def is_best(config):
        attention = config.model.attention
        return attention.get("encoder_scoring") == "sigmoid" and attention.get("decoder_scoring") == "softmax"

    runs = made_up(
        "translation",
        bleu=lambda config: 27.0 - 2 * is_best(config) + config.training.seed,  # worst on the test set
        valid=lambda config: 20.0 + 5 * is_best(config) + config.training.seed,
    )
    tables.table_2(output, runs)
    rows = {row["model"]: row for row in rows_of(output)}
    assert list(rows) == ["none", "bahdanau", "luong", "K=32", "K=32 + PE", "K=64", "K=64 + PE"]
    assert rows["K=32"]["best scorings"] == "sigmoid/softmax"
    means = [rows["K=32"][key] for key in ("seeds", "valid BLEU (greedy)", "test BLEU", "min-max")]
    assert means == ["3", "27.00", "27.00", "26.00-28.00"]
    assert rows["bahdanau"]["test BLEU"] == "29.00"
    assert rows["bahdanau"]["paper test"] == ""  # Multi30k is not in the paper


def test_table_2_at_full_scale_has_the_printed_figures(tmp_path, capsys):
    output = Output(str(tmp_path), "paper")
    tables.table_2(output, made_up("translation", bleu=lambda config: 30.0, scale="paper"))
    rows = {(row["text"], row["model"]): row for row in rows_of(output)}
    assert len(rows) == 4 * 5
    assert rows["wmt17.en-de", "K=64 + PE"]["paper test"] == "30.61"
    assert rows["wmt17.en-de", "K=64 + PE"]["difference"] == "-0.61"
    assert rows["wmt17.en-tr", "bahdanau"]["paper valid"] == "13.76"
    assert rows["wmt17.en-tr", "bahdanau"]["paper test"] == ""
    assert "SCALED" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "num_rows"),
    [("teacher", 6), ("teacher_translation", 5), ("family", 13), ("windows", 11)],
)
def test_a_table_has_its_rows_and_a_value_in_each_column(name, num_rows, output):
    target = runner.TARGETS[name]
    runs = [made_up(kind, bleu=lambda config: 95.0 + config.training.seed) for kind in target.kinds]
    target.write(output, *([run for run in of_kind if target.needs(run.config)] for of_kind in runs))
    rows = rows_of(output)
    assert len(rows) == num_rows
    assert len({tuple(row.values()) for row in rows}) == len(rows)
    assert all(any(row[column] for row in rows) for column in rows[0])


@pytest.mark.parametrize("name", ["figure2", "figure3", "figure4", "figure5"])
def test_figures_are_drawn_as_png_and_as_svg(output, name, tmp_path):
    kinds = runner.TARGETS[name].kinds
    runner.TARGETS[name].write(output, *(made_up(kind, bleu=lambda config: 50.0) for kind in kinds))
    pictures = sorted(tmp_path.glob("*.png"))
    assert len(pictures) == {"figure3": 2}.get(name, 1)
    for picture in pictures:
        assert (image.imread(picture)[..., :3].min(-1) < 0.95).mean() > 0.01
        assert "<svg" in picture.with_suffix(".svg").read_text("utf-8")


def test_figure_5_compares_the_four_scorings(output, monkeypatch):
    def bleu(config):
        attention = config.model.attention
        encoder_bonus = 10 * (attention.get("encoder_scoring") == "sigmoid")
        decoder_bonus = 20 * (attention.get("decoder_scoring") == "sigmoid")
        return 40.0 + encoder_bonus + decoder_bonus + config.training.seed

    drawn = []
    monkeypatch.setattr(plots, "learning_curves", lambda path, *arguments: drawn.append(arguments))
    figures.figure_5(output, made_up("translation", bleu=bleu))
    curves, title, _ = drawn[0]
    assert "K = 32" in title
    assert curves[0].name == "softmax/softmax"
    assert curves[0].points == {10: (1.0, 1.0, 1.0), 20: (42.0, 41.0, 43.0)}
    rows = files.read_csv(output.path("multi30k.en-de.csv"))
    last = {row["run"]: (row["seeds"], row["validation BLEU"], row["min-max"]) for row in rows if row["step"] == "20"}
    assert last == {
        "softmax/softmax": ("3", "42.00", "41.00-43.00"),
        "sigmoid/softmax": ("3", "52.00", "51.00-53.00"),
        "softmax/sigmoid": ("3", "62.00", "61.00-63.00"),
        "sigmoid/sigmoid": ("3", "72.00", "71.00-73.00"),
    }


@pytest.mark.parametrize(("scale", "attentions"), [("small", ["memory", "bahdanau"]), ("paper", ["memory"])])
def test_figure_8_trains_only_the_runs_that_it_shows(scale, attentions, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    (runs,) = runner.runs_of(["figure8"], scale).values()
    expected = {"num_slots": 32, "encoder_scoring": "sigmoid", "decoder_scoring": "sigmoid", "position_encoding": False}
    configs = list(runs.values())
    assert [config.model.attention["name"] for config in configs] == attentions
    assert {key: configs[0].model.attention[key] for key in expected} == expected
    assert {config.training.seed for config in configs} == {1}
    trained = []
    monkeypatch.setattr(runner.sweep, "run_sweep", lambda *args, only, **options: trained.append(list(only)) or [])
    monkeypatch.setattr(runner, "finished", lambda *args: made_up("figure8", scale=scale, bleu=lambda config: 50.0))
    monkeypatch.setattr(figures, "draw_alignments", lambda output, runs, *args, **options: None)
    make_reproduction(scale=scale, results_dir=str(tmp_path)).make("figure8")
    assert trained == [list(runs)]
    conditions = json.loads((tmp_path / "figure8" / scale / "conditions.json").read_text("utf-8"))
    assert {name.rpartition("/")[2] for name in conditions["runs"]["figure8"]} == runs.keys()


def test_failed_runs_are_named_below_the_table_and_left_out_of_it(tmp_path, monkeypatch, capsys):
    runs = made_up("table1", bleu=lambda config: 50.0)
    monkeypatch.setattr(runner.sweep, "run_sweep", lambda *args, **options: [runs[-1].name])
    monkeypatch.setattr(runner, "finished", lambda *args: runs[:-1])
    monkeypatch.chdir(ROOT)
    reproduction = make_reproduction(results_dir=str(tmp_path))
    reproduction.make("table1")
    assert f"\n{MISSING}: {reproduction.failed[0]}\n" in capsys.readouterr().out
    reproduction.make("slots_by_length")
    assert reproduction.failed == [f"runs/reproduce/table1.small/{runs[-1].name}"]
    rows = rows_of(Output(str(tmp_path / "slots_by_length" / "small"), "small"))
    assert [row["fewest slots"] for row in rows] == ["1", "1", "1", ""]  # the last length lacks Bahdanau attention
    monkeypatch.setattr(runner, "finished", lambda *args: [])
    with pytest.raises(RunError, match="^no run of table1 succeeded$"):
        make_reproduction(results_dir=str(tmp_path)).make("table1")


@pytest.mark.long
def test_a_figure_is_drawn_from_runs_that_are_trained_once(command, tmp_path, monkeypatch, capfd):
    write_study(tmp_path, "alignments", TINY)
    run_in_forks(command, tmp_path, monkeypatch)
    for progress in ("0 done before", "2 done before"):
        reproduction = make_reproduction(jobs=2)
        reproduction.make("figure7")
        assert reproduction.failed == []
        assert progress in capfd.readouterr().out
        names = sorted(path.name for path in (tmp_path / "results" / "figure7" / "small").iterdir())
        pictures = [f"{name}-{name}.{ending}" for name in ("sigmoid", "softmax") for ending in ("png", "svg")]
        assert names == sorted([*pictures, "conditions.json"])
    conditions = json.loads((tmp_path / "results" / "figure7" / "small" / "conditions.json").read_text("utf-8"))
    assert conditions["scale"] == "small"
    assert len(conditions["runs"]["alignments"]) == 2


def test_the_fewest_slots_are_those_within_half_a_bleu_of_attention(output):
    def bleu(config):
        slots = config.model.attention.get("num_slots", 64)  # 64: Bahdanau attention
        return 99.0 if slots >= config.data.copy.max_length else 98.4

    open_questions.slots_by_length(output, made_up("table1", bleu=bleu))
    rows = rows_of(output)
    lengths = list(tables.PRINTED_LENGTHS["small"])
    fewest = [min(slots for slots in (1, 4, 16, 32, 64) if slots >= length) for length in lengths]
    assert [row["fewest slots"] for row in rows] == [str(slots) for slots in fewest]
    # 99.52 and 99.98; 99.95; 99.81; 99.98 and 100
    assert [row["paper: fewest slots"] for row in rows] == ["1", "4", "4", "16"]


def write_translations(run, hypotheses, references):
    """Writes the texts of a run's evaluation."""
    folder = Run(run.folder).results_folder(run.result.split)
    os.makedirs(folder)
    for name, lines in (("references.txt", references), ("hypotheses.txt", hypotheses)):
        files.write(f"{folder}/{name}", "".join(f"{line}\n" for line in lines))


def test_memories_stand_beside_attention_for_each_text_and_are_drawn_by_length_and_slots(output, tmp_path, monkeypatch):
    words = {"bible.en-es.1": 27, "bible.en-es.2": 58, "bible.en-es.4": 115, "bible.en-es.8": 231}
    runs = made_up("long_texts", bleu=lambda config: 20.0 - ("num_slots" in config.model.attention))
    for run in runs:
        run.result.scores["chrf"] = 40.0
    long_texts.long_texts(output, runs)
    rows = rows_of(output)
    assert {row["text"] for row in rows} == {*words, "descriptions.en-it", "synopses.en"}
    by_model = {row["model"]: row for row in rows if row["text"] == "bible.en-es.4"}
    assert by_model["windowed memory, K = 32"]["BLEU"] == "19.00"
    bahdanau = {(row["seeds"], row["BLEU"]) for row in rows if row["model"] == "Bahdanau"}
    assert bahdanau == {("3", "20.00"), ("1", "20.00")}
    assert {"no attention", "dot product", "stretch means, K = 32", "memory, K = 32"} <= by_model.keys()

    seconds = {(32, True): 2.0, (32, False): 3.0, (1, True): 5.0, (1, False): 5.0}
    for name, function in {
        "_decoder": lambda config, split, batch_size: (batch_size, "num_slots" in config.model.attention),
        "in_turns": lambda decoders, repeats: {model: [seconds[key]] for model, key in decoders.items()},
        "read_lines": lambda path: ["a@@ a " * words.get(path.split("/")[-2], 40)],
        "bleu_by_length": lambda seeds: {("1-9", 7): 18.0},
        "_rouge": lambda seeds: {"rougeL": "30.00"},
    }.items():
        monkeypatch.setattr(long_texts, name, function)
    drawn, by_length, loss_and_speed = {}, plots.by_length, plots.loss_and_speed
    monkeypatch.setattr(plots, "by_length", lambda *given: drawn.update(length=given) or by_length(*given))
    monkeypatch.setattr(plots, "loss_and_speed", lambda *given: drawn.update(slots=given) or loss_and_speed(*given))
    long_texts.decoding(output, [run for run in runs if text_name(run) != "bible.en-es.1" or "num_slots" in run.name])
    times = {(row["text"], row["model"]): row for row in rows_of(output)}
    windowed = times["bible.en-es.4", "windowed memory, K = 32"]
    columns = ("source words", "speed-up, batch 32", "speed-up, batch 1")
    assert [windowed[column] for column in columns] == ["115", "1.50", "1.00"]
    assert times["bible.en-es.1", "windowed memory, K = 32"]["speed-up, batch 32"] == ""  # without attention
    assert all((tmp_path / f"{name}.png").stat().st_size > 10_000 for name in drawn)
    assert files.read_csv(output.path("rouge.csv"))[0]["rougeL"] == "30.00"
    assert {row["BLEU"] for row in files.read_csv(output.path("by_length.csv"))} == {"18.00"}
    _, bleu, speed, _ = drawn["length"]
    bleu, speed = ({line.name: line.points for line in lines} for lines in (bleu, speed))
    assert bleu["Bahdanau"] == dict.fromkeys((58, 115, 231), (20.0, 20.0, 20.0))
    assert speed["windowed memory, K = 32"] == dict.fromkeys((58, 115, 231), (1.5, 1.5, 1.5))
    _, losses, _ = drawn["slots"]  # of the longest examples
    assert {tuple(loss[1:]) for loss in losses} == {(slots, 1.0, 1.5) for slots in (16, 32, 64, 128)}


@pytest.mark.parametrize("batch_size", [32, 1])
def test_models_whose_decode_times_are_compared_write_equally_long_hypotheses(tmp_path, batch_size):
    """The corpus has sources of 3 to 7 tokens, and references twice as long, the end of sentence included."""
    sources = [" ".join("ab" * length)[: 2 * length - 1] for length in (3, 5, 5, 7)]
    targets = [" ".join("c" * (2 * len(source.split()) + 1)) for source in sources]
    for name, lines in (("vocab.txt", "abc"), ("test.source", sources), ("test.target", targets)):
        files.write(str(tmp_path / name), "".join(f"{line}\n" for line in lines))
    for attention in ({"name": "bahdanau"}, {"name": "stretch_means", "num_slots": 2, "read": "additive"}):
        changes = {"data": {"folder": str(tmp_path)}, "model.attention": attention, "model.tie_embeddings": "all"}
        translations, _ = long_texts._decoder(tiny(changes), "test", batch_size)()
        assert sorted(len(translation.best) for translation in translations) == [8, 12, 12, 16]


def test_a_continued_run_has_one_curve():
    """The steps of the second part follow those of the first."""
    first, second, apart = made_up("windowed_memory", bleu=lambda config: 96.0, scale="cpu")[:3]
    training = dataclasses.replace(second.config.training, init_from=f"runs/{first.name}")
    second = second._replace(config=dataclasses.replace(second.config, training=training))
    joined = windowed.continued([first, second, apart])
    assert [run.name for run in joined] == [second.name, apart.name]
    assert joined[0].curve() == [(10, 1.0), (20, 96.0), (30, 1.0), (40, 96.0)]
    assert joined[1].curve() == apart.curve()


def test_wrong_tokens_are_counted_by_fifths_of_the_greatest_length(output, tmp_path):
    runs = [
        run._replace(folder=str(tmp_path / run.name))
        for run in made_up("table1", bleu=lambda config: 50.0)
        if run.config.data.copy.max_length == 10
    ]
    references = ["1 2 3 4 5 6 7 8", "", "1 2 3"]
    hypotheses = ["1 9 3 4 5", "7", "1 2 8 3"]  # wrong second; three missing; one too many; third wrong, one too many
    for run in runs:
        write_translations(run, hypotheses, references)
    open_questions.errors_by_position(output, runs[::-1])
    rows = rows_of(output)
    assert [row["model"] for row in rows] == list(printed.TABLE_1_MODELS)
    for row in rows:  # 1 of 4, 1 of 3, 1 of 2 and 2 of 2; no token in the last fifth
        assert list(row.values())[2:] == ["25.00", "33.33", "50.00", "100.00", ""]


def test_bleu_by_length_scores_the_sentences_of_each_range_of_lengths(output, tmp_path):
    lines = [" ".join(["a"] * length) for length in range(1, 9)]
    (tmp_path / "vocab.txt").write_text("a\nb\n", encoding="utf-8")
    for name in ("valid.source", "valid.target"):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = DataConfig(folder=str(tmp_path), copy=CopyConfig(max_length=8), max_source_length=9)
    runs = []
    for name, shortest_wrong in (("none", 5), ("bahdanau", 100)):
        hypotheses = [line.replace("a", "b") if len(line.split()) >= shortest_wrong else line for line in lines]
        config = Config(data=data, model=Seq2SeqConfig(attention={"name": name}))
        curve = [{"step": "1", "bleu": "1.0"}]
        runs.append(SweepRun(name, str(tmp_path / name), config, made_up_result(config), curve))
        write_translations(runs[-1], hypotheses, lines)
    family.rnnsearch_by_length(output, runs)
    rows = rows_of(output)
    assert [row["source tokens"] for row in rows] == ["1-2", "3-4", "5-6", "7-8"]
    assert [row["sentences"] for row in rows] == ["2"] * 4
    assert [row["bahdanau, trained to 8"] for row in rows[1:]] == ["100.00"] * 3
    assert [row["none, trained to 8"] for row in rows[1:]] == ["100.00", "0.00", "0.00"]


def test_a_missing_corpus_is_reported_before_anything_is_trained(monkeypatch, tmp_path):
    write_study(tmp_path, "translation", "data: {folder: data/nowhere}\n")
    monkeypatch.chdir(tmp_path)
    problem = "^data/nowhere: not prepared yet; the head of configs/studies/translation/small.yaml has the command$"
    with pytest.raises(ConfigError, match=problem):
        runner.check(["table2"], "small")


@pytest.mark.parametrize("scale", ["small", "cpu", "paper"])
def test_a_target_has_the_runs_that_teach_its_others_or_that_these_start_from(scale, monkeypatch):
    monkeypatch.chdir(ROOT)
    for name in runner.available(scale):
        runs = runner.runs_of([name], scale)
        folders = {os.path.join(runner.sweep_folder(path), run) for path, of_path in runs.items() for run in of_path}
        training = [run.training for of_path in runs.values() for run in of_path.values()]
        assert {folder for each in training for folder in (each.teacher, each.init_from) if folder} <= folders


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["windowed_memry"], r"'windowed_memry' is none of all, table1, .*; did you mean windowed_memory\?$"),
        (["table1", "table2", "--scale=cpu"], "table2: not made at --scale cpu, which has table1, figure6, figure7, "),
    ],
)
def test_invalid_arguments_are_reported(command, arguments, message):
    result = command(ROOT, "scripts.reproduce", *arguments, may_fail=True)
    assert result.returncode == 2
    assert re.match(f"error: {message}", result.stderr.splitlines()[-1])


@pytest.mark.parametrize("name", ["bahdanau", "luong_dot", "none", "linear", "windowed_memory"])
def test_a_few_lines_of_one_mechanism_have_its_dash_and_others(name):
    lines = line_styles([{"name": name}] * 4)
    assert lines[0] == (STYLES[name].colour.lower(), line_styles([{"name": name}])[0][1])
    assert len({dash for _, dash in lines}) == len({colour for colour, _ in lines}) == 4
