"""Comparisons of evaluated runs, against sacreBLEU's own command."""

import json
import random
import re
import subprocess
import sys

import pytest

from memattn.errors import DataError, RunError
from memattn.evaluation.compare import compare, read
from memattn.evaluation.stored import evaluation_command

REFERENCES = [
    f"the {colour} dog number {i} sleeps near a {colour} house" for i in range(20) for colour in ("red", "blue")
]


def noisy(share, seed):
    """Returns the references with a share of their words replaced."""
    draws = random.Random(seed)
    return [" ".join("cat" if draws.random() < share else word for word in line.split()) for line in REFERENCES]


def write_run(folder, hypotheses, references=REFERENCES, split="valid", **decoding):
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"split": split, "config": {"decoding": decoding}}))
    for name, lines in (("hypotheses.txt", hypotheses), ("references.txt", references)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return str(folder)


def cells(table, row):
    return [cell.strip() for cell in table.splitlines()[2 + row].split("|")[1:-1]]


@pytest.mark.slow
def test_scores_intervals_and_p_values_are_those_of_sacrebleu(tmp_path):
    folders = [
        write_run(tmp_path / name, noisy(share, i)) for i, (name, share) in enumerate({"a": 0.2, "b": 0.3}.items())
    ]
    text = compare([read(folder, "valid") for folder in folders], 0)
    files = [f"{folder}/hypotheses.txt" for folder in folders]
    command = ["-m", "sacrebleu", f"{folders[0]}/references.txt", "-i", *files, "-m", "bleu", "chrf", "--paired-bs"]
    options = ["-f", "text", "-w", "4"]
    printed = subprocess.run([sys.executable, *command, *options], capture_output=True, text=True, check=True).stdout
    scores = [tuple(map(float, numbers)) for numbers in re.findall(r"([\d.]+) \(([\d.]+) ± ([\d.]+)\)", printed)]
    p_values = [float(number) for number in re.findall(r"\(p = ([\d.]+)\)", printed)]
    expected = [[*scores[0], *scores[1]], [*scores[2], *scores[3]]]
    for row, (bleu, bleu_mean, bleu_ci, chrf, chrf_mean, chrf_ci) in enumerate(expected):
        _, *numbers = cells(text, row)
        for (score, extent, p), theirs, mean, ci, their_p in (
            (numbers[:3], bleu, bleu_mean, bleu_ci, p_values[0]),
            (numbers[3:], chrf, chrf_mean, chrf_ci, p_values[1]),
        ):
            assert float(score) == pytest.approx(theirs, abs=0.006)
            assert tuple(map(float, extent.split("-"))) == pytest.approx((mean - ci, mean + ci), abs=0.006)
            assert (float(p) == pytest.approx(their_p, abs=0.0006)) if row else p == ""
    assert "|bs:1000|seed:12345|" in text


def test_the_sentences_that_differ_most_come_first(tmp_path):
    second = list(REFERENCES)
    second[7], second[3] = "cat", f"{REFERENCES[3]} cat"
    runs = [read(write_run(tmp_path / name, lines), "valid") for name, lines in (("a", REFERENCES), ("b", second))]
    shown = [line.split(":")[0] for line in compare(runs, 5).splitlines() if line.startswith("line ")]
    assert shown == ["line 8", "line 4"]  # equal sentences are not shown
    assert compare([runs[0], runs[0]], 5).count("line ") == 0
    assert cells(compare(runs, 5), 0)[1] == "100.00"


def test_evaluations_are_found_by_their_split(tmp_path):
    run = tmp_path / "run"
    write_run(run, noisy(0.1, 1))
    write_run(run / "eval" / "test", noisy(0.5, 2), split="test")
    assert read(str(run), "valid").hypotheses == noisy(0.1, 1)
    assert read(str(run), "test").hypotheses == noisy(0.5, 2)
    swept = write_run(tmp_path / "swept", noisy(0.3, 3), split="test")  # a sweep writes its split into the run folder
    assert read(swept, "test").hypotheses == noisy(0.3, 3)
    with pytest.raises(RunError, match="swept: no evaluation on valid; make one with: memattn-eval --run_dir"):
        read(swept, "valid")


def test_the_command_that_evaluates_a_file_of_the_current_folder_names_it_as_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert evaluation_command("run", "test.en") == "memattn-eval --run_dir run --split test.en"
    (tmp_path / "test.en").write_text("a\n")
    assert evaluation_command("run", "test.en") == "memattn-eval --run_dir run --source test.en --target FILE"


def test_later_results_in_the_folder_of_evaluations_count_before_those_of_a_sweep(tmp_path):
    swept = write_run(tmp_path / "swept", noisy(0.3, 3), split="test")
    write_run(tmp_path / "swept" / "eval" / "test", noisy(0.1, 2), split="test")
    assert read(swept, "test").hypotheses == noisy(0.1, 2)


def test_evaluations_of_a_file_are_found_by_its_path(tmp_path):
    run = write_run(tmp_path / "run", noisy(0.1, 1))
    write_run(tmp_path / "run" / "eval" / "test.en", noisy(0.5, 2), split="text/test.en")
    write_run(tmp_path / "run" / "eval" / "test", noisy(0.2, 2), split="./test")
    for path in ("text/test.en", "./text/test.en", "text//test.en"):
        assert read(run, path).hypotheses == noisy(0.5, 2)
    assert read(run, "./test").hypotheses == noisy(0.2, 2)
    with pytest.raises(RunError, match="no evaluation on test; .* --split test"):
        read(run, "test")  # a split is not a file of its name
    with pytest.raises(RunError, match=r"no evaluation on b/x.en; .* --run_dir \S+/run --source b/x.en --target FILE"):
        read(run, "b/x.en")


def test_equal_scores_are_not_significant(tmp_path):
    runs = [read(write_run(tmp_path / name, lines), "valid") for name, lines in (("a", REFERENCES), ("b", REFERENCES))]
    assert cells(compare(runs, 0), 1)[3] == cells(compare(runs, 0), 1)[6] == "1.000"


def test_runs_that_cannot_be_compared_are_refused(tmp_path):
    runs = [write_run(tmp_path / "a", REFERENCES), write_run(tmp_path / "b", REFERENCES, REFERENCES[::-1])]
    with pytest.raises(RunError, match="b: has other references than"):
        compare([read(run, "valid") for run in runs], 5)
    damaged = write_run(tmp_path / "c", REFERENCES[1:])
    with pytest.raises(DataError, match="damaged; 39 translations of 40 references"):
        read(damaged, "valid")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["--compare=b", "--repeats=1"],
            "--compare: reads the results of earlier evaluations; --repeats would have no",
        ),
        (["--compare=b", "--run_dir=c"], "a second --run_dir would have no effect"),
        (["--compare=nowhere"], "nowhere: no such folder"),
    ],
)
def test_wrong_comparisons_are_reported_in_one_line(command, tmp_path, arguments, problem):
    write_run(tmp_path / "a", REFERENCES)
    status, out, errors = command(tmp_path, "memattn.eval", "--run_dir=a", *arguments)
    assert status in (1, 2)
    assert out == ""
    assert problem in errors
    assert errors.count("\n") == 1


@pytest.mark.slow
def test_the_command_prints_a_table_and_sentences(command, tmp_path):
    for name, share in (("a", 0.1), ("b", 0.4), ("c", 0.2)):
        write_run(tmp_path / name, noisy(share, 1))
    status, out, errors = command(tmp_path, "memattn.eval", "--run_dir=a", "--compare=b", "--compare=c")
    assert (status, errors) == (0, "")
    assert [cells(out, row)[0] for row in range(3)] == ["a", "b", "c"]
    assert out.count("\nline ") == 5


def test_runs_that_were_decoded_differently_are_said_to_be(tmp_path):
    folders = [
        write_run(tmp_path / "beam_10", noisy(0.2, 1), beam_size=10, batch_size=32),
        write_run(tmp_path / "smaller_batches", noisy(0.2, 1), beam_size=10, batch_size=1),
        write_run(tmp_path / "beam_1", noisy(0.2, 1), beam_size=1, batch_size=32),
    ]
    beam_10, smaller_batches, beam_1 = (read(folder, "valid") for folder in folders)
    assert "different settings" not in compare([beam_10, smaller_batches], 0)
    message = "decoded with different settings, from which differences may come: beam_size 10, 1\n"
    assert message in compare([beam_10, beam_1], 0)
    older = read(write_run(tmp_path / "older", noisy(0.2, 1)), "valid")  # without the keys of later versions
    newer = read(write_run(tmp_path / "newer", noisy(0.2, 1), no_repeat_ngram_size=3, lexicon_size=20), "valid")
    assert "may come: no_repeat_ngram_size None, 3\n" in compare([older, newer], 0)


def test_the_language_is_that_of_any_run(tmp_path):
    results = read(write_run(tmp_path / "average", noisy(0.2, 1)), "valid")
    run = results._replace(run_dir="run", language="zh")
    assert "tok:zh" in compare([results, run], 0)


def test_an_evaluation_whose_settings_are_damaged_is_an_error(tmp_path):
    folder = write_run(tmp_path / "a", REFERENCES)
    (tmp_path / "a" / "result.json").write_text('{"split": "valid", "config": 3}')
    with pytest.raises(DataError, match="a/result.json: config: expected a mapping, not 3"):
        read(folder, "valid")


def test_trees_are_not_compared_as_text(tmp_path):
    folders = [write_run(tmp_path / name, ["(NP XX )NP"], ["(S XX )S"]) for name in "ab"]
    with pytest.raises(RunError, match="a: has trees, .*; compare bracketing_f1 in result.json"):
        compare([read(folder, "valid") for folder in folders], 1)
