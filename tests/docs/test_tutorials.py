"""The tutorials run as they are printed, and print what they say.

The text blocks after a block of code or commands are its output. Each of their lines must be a line of the real output,
but for numbers, which depend on the machine and on the size of the test.
"""

import contextlib
import gzip
import io
import re
import shlex
from typing import NamedTuple

import matplotlib.pyplot as plt
import multi30k
import pytest
from helpers.repository import ROOT
from helpers.texts import sentences

from memattn import config as configs
from memattn.sweeps import runner

pytestmark = pytest.mark.slow


class Block(NamedTuple):
    """A block of a page, the file that the sentence before it names, and the lines printed after it."""

    language: str
    code: str
    file: str | None
    output: list[str]


def blocks(page, changes):
    """Returns the blocks of a tutorial, with parts of their code replaced."""
    text = (ROOT / "docs/tutorials" / page).read_text(encoding="utf-8")
    prose, *parts = re.split(r"^```(\w+)\n(.*?)^```\n", text, flags=re.DOTALL | re.MULTILINE)
    results = []
    for language, code, next_prose in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        file = re.search(r"Save (?:this|these lines) as\s+`([\w.]+)`[^`]*:\s*$", prose)
        if language == "text" and not file:
            results[-1].output.extend(code.splitlines())
        else:
            for old, new in changes.items():
                code = code.replace(old, new)
            results.append(Block(language, code, file and file[1], []))
        prose = next_prose
    for old in changes:
        assert old in text, old
    return results


def without_numbers(line):
    """Returns a line with every number as 0, and every run of blanks or hyphens as one."""
    return re.sub(r"([ -])\1+", r"\1", re.sub(r"\d[\d,.:]*", "0", line)).strip()


def assert_printed(block, printed):
    """Asserts that the output has the lines that the page shows after a block; `...` stands for anything."""
    real = [without_numbers(line) for line in printed.splitlines()]
    for line in block.output:
        pattern = ".*".join(map(re.escape, without_numbers(line).split("...")))
        assert any(re.fullmatch(pattern, candidate) for candidate in real), f"{line!r} is not in:\n{printed}"


@pytest.fixture
def follow(command, tmp_path, monkeypatch):
    """follow(page, changes, runs) does what a tutorial says, in an empty folder; yields each block and what it printed.

    `runs` maps the name of a command to a function that runs it instead.
    """
    monkeypatch.chdir(tmp_path)

    def execute(name, *arguments, runs, fails):
        """Runs a command; returns what it prints, on standard error if it fails."""
        if name in runs:
            return runs[name](*arguments)
        stdin = ""
        if "<" in arguments:
            *arguments, _, file = arguments
            stdin = (tmp_path / file).read_text(encoding="utf-8")
        result = command(tmp_path, name.replace("-", "."), *arguments, stdin=stdin, may_fail=fails)
        assert bool(result.returncode) == fails
        return result.stderr if fails else result.stdout

    def follow(page, changes, runs=()):
        namespace = {}
        for block in blocks(page, changes):
            if block.file:
                (tmp_path / block.file).write_text(block.code, encoding="utf-8")
            elif block.language == "python":
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(block.code, namespace)
                yield block, printed.getvalue()
            elif block.language == "sh" and "curl" not in block.code:
                fails = any("error: " in line for line in block.output)
                lines = block.code.replace("\\\n", " ").splitlines()
                yield block, "".join(execute(*shlex.split(line), runs=dict(runs), fails=fails) for line in lines)

    yield follow
    plt.close("all")


@pytest.mark.long
def test_the_layer_trains_in_a_keras_model_of_its_own(follow):
    """The model with windowed memory is trained in full, one other model for three batches."""
    others = "(MemoryAttention(num_slots=8), BahdanauAttention(units=64), LuongAttention(units=64))"
    changes = {others: "(LuongAttention(units=64),)", '"epochs": 2,': '"epochs": 1, "steps_per_epoch": 3,'}
    for block, printed in follow("layer_in_keras.md", changes):
        if "epochs=3" in block.code:
            continue  # progress; versions of Keras print it differently
        if "normalize" in block.code:
            *dates, score = printed.splitlines()
            assert dates == block.output[:-1] == ["1999-12-25", "2000-02-29", "1950-08-07"]
            assert int(score.split()[0]) >= 450
        elif "LuongAttention" in block.code:
            assert without_numbers(printed) == without_numbers(block.output[-1])
        else:
            assert block.output == printed.splitlines()


def test_slots_stand_between_encoder_and_multi_head_attention(follow):
    for block, printed in follow("from_multi_head_attention.md", {}):
        assert block.output == printed.splitlines()


def test_text_files_become_a_model_that_translates(follow, tmp_path):
    (tmp_path / "text").mkdir()
    for split, number in (("train", 300), ("dev", 20), ("test", 10)):
        for language in ("en", "de"):
            with gzip.open(tmp_path / "text" / f"{split}.{language}.gz", "wt", encoding="utf-8") as file:
                file.write("".join(f"{sentence}\n" for sentence in sentences(number, split)))
    changes = {
        "--set training.max_steps=454": "--set training.max_steps=2 --set training.jit_compile=false"
        " --set decoding.jit_compile=false",
        "--set training.validate_every=454": "--set training.validate_every=2 --set model.units=16",
        "jit_compile=false --run_dir": "jit_compile=false --set model.embedding_size=16 --run_dir",
    }
    for block, printed in follow("translate.md", changes):
        if "memattn-translate" in block.code:
            assert len(printed.splitlines()) == len(block.output)
        else:
            assert_printed(block, printed)
    (download, *_) = blocks("translate.md", {})
    assert f"url={multi30k.URL}\n" in download.code


@pytest.mark.long
def test_a_sweep_compares_four_mechanisms(follow, command, tmp_path, monkeypatch, capsys):
    """Two seeds of two of the mechanisms, two training steps."""

    def run(module, label, folder, arguments, _):
        printed = command(tmp_path, module, "--run_dir", folder, *arguments).stdout
        print("".join(f"{label} {line}\n" for line in printed.splitlines()))
        return 0

    def sweep(*arguments):
        if "--list" in arguments:
            return command(tmp_path, "memattn.sweep", *arguments).stdout
        options = dict(zip(arguments[::2], arguments[1::2], strict=True))
        config, folder = configs.load(options.pop("--config"), []), options.pop("--sweep_dir")
        given = {name.removeprefix("--"): value for name, value in options.items()}
        defaults = {"jobs": 1, "split": "valid", "average": None, "repeats": 1, "num_plots": 0, "strategy": "none"}
        assert runner.run_sweep(config, folder, **defaults, **given) == []
        return capsys.readouterr().out

    monkeypatch.setattr(runner, "command", run)
    changes = {
        "train_examples: 20000, valid_examples: 500": "train_examples: 256, valid_examples: 8",
        "max_steps: 800, validate_every: 100": "max_steps: 2, validate_every: 2",
        "    - model.attention: {name: memory, num_slots: 5}\n": "",
        "    - model.attention: {name: bahdanau}\n": "",
        "[1, 2, 3]": "[1, 2]",
    }
    left_out = re.compile(r"\bmemory-|bahdanau")
    for block, printed in follow("compare_mechanisms.md", changes, {"memattn-sweep": sweep}):
        output = [line for line in block.output if not left_out.search(line)]
        assert_printed(block._replace(output=output), printed)


@pytest.mark.long
def test_a_mechanism_outside_the_package_trains_and_is_tested(follow, command, tmp_path):
    def tests(*arguments):
        _, module, *rest = arguments
        options = ["-p", "no:cacheprovider", "-k", "greedy"]
        return re.sub(r", \d+ deselected", "", command(tmp_path, module, *rest, *options).stdout)

    changes = {
        "max_steps: 600, validate_every: 200": "max_steps: 2, validate_every: 2",
        "beam_size: 4": "beam_size: 4, jit_compile: false",
        "CLONE": str(ROOT),
    }
    for block, printed in follow("add_a_mechanism.md", changes, {"python": tests}):
        assert_printed(block, printed)
