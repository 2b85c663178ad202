"""Code in the README and in docs/ runs as it is printed, and results in them equal the committed ones."""

import json
import re
import shlex

import pytest
import yaml
from helpers.pages import EVERY_PAGE
from helpers.repository import ROOT
from studies import stored, tables_in_pages

from memattn import config
from memattn.eval import summary
from memattn.files import read_csv
from memattn.runs.result import Result
from memattn.sweeps.runs import expand

PAGES = [str(path.relative_to(ROOT)) for path in EVERY_PAGE]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_code_of_the_readme_prints_what_it_says(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    without_xla = code.replace("from_logits=True))", "from_logits=True), jit_compile=False)")
    assert without_xla != code
    exec(without_xla, {})
    assert f"# {capsys.readouterr().out.splitlines()[-1]}\n" in code


def test_the_code_of_the_first_page_returns_a_context_for_each_query():
    (code,) = re.findall(r"```python\n(.*?)```", page("docs/index.md"), flags=re.DOTALL)
    names = {}
    exec(code, names)
    assert names["context"].shape == (2, 30, 64)


def test_configs_of_the_pages_expand_to_as_many_runs_as_printed(tmp_path):
    pages = "".join(page(name) for name in PAGES if name.startswith(("docs/guides/", "docs/reference/")))
    configs = re.findall(r"```yaml\n(# (\S+\.yaml)(?:: (\d+) runs)?\n.*?)```", pages, flags=re.DOTALL)
    assert {name for _, name, _ in configs} >= {"tiny.yaml", "grid.yaml"}
    for text, name, runs in configs:
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert name == "wrong.yaml" or len(expand(config.load(str(tmp_path / name), []))) == int(runs or 1), name


@pytest.mark.parametrize(
    "name, lines",
    [
        ("guides/choosing_settings.md", r"(?s)## Which scorings.*?## Initial weights"),
        ("results/index.md", r"(?s)## Verdicts.*?## Methodology"),
        ("results/copying.md", r"(?s)## As good as attention.*?### Conditions"),
    ],
)
def test_scores_are_those_of_the_linked_files(name, lines):
    text = page(f"docs/{name}")
    linked = set(re.findall(r"\(\.\./\.\./(results/\S+?\.csv)[) ]", text))
    known = re.findall(r"\d+\.\d+", "".join(map(page, [*linked, "scripts/studies/britz2017/printed.py"])))
    shown = re.findall(r"\d+\.\d\d+", "\n".join(re.findall(lines, text)))
    assert shown
    assert set(map(float, shown)) <= set(map(float, known))


@pytest.mark.slow
@pytest.mark.parametrize("folder", stored.MADE)
def test_tables_of_stored_runs_are_those_of_the_runs(folder, tmp_path):
    stored.make(folder, str(tmp_path))
    committed = {path.name for path in (ROOT / "results" / folder).glob("*.csv")}
    assert "table.csv" in committed
    for name in committed:
        assert (ROOT / "results" / folder / name).read_bytes() == (tmp_path / name).read_bytes(), name


def records(value):
    """Yields every record in a JSON value that names a commit."""
    if isinstance(value, dict) and "commit" in value:
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from records(part)


def test_the_results_say_how_many_of_them_have_no_clean_commit():
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "results").rglob("*.json")}
    recorded = [record for text in texts.values() for record in records(json.loads(text))]
    unclean = sum("uncommitted" in str(record["commit"]) for record in recorded)
    not_kept = sum("run by JAX" in record.get("how", "") for record in recorded)
    readme = page("results/README.md")
    assert f"{unclean} results have one" in readme
    assert f"{not_kept} runs of" in readme
    folders = {path.parent for path in (ROOT / "results").rglob("*.csv")}
    unrecorded = folders - {path.parent for path, text in texts.items() if "commit" in text}
    assert {folder.relative_to(ROOT / "results").parts[0] for folder in unrecorded} == {"errors_by_position"}


def test_a_run_folder_becomes_a_stored_run(tmp_path):
    runs = stored.read("multi30k/small")
    name = "bahdanau-seed=1"
    run = runs[name]
    evaluation = tmp_path / name / "eval" / "test"
    evaluation.mkdir(parents=True)
    (evaluation / "result.json").write_text(json.dumps({**run["result"], "config": run["config"]}), encoding="utf-8")
    (tmp_path / name / "validation.csv").write_text("\n".join([*run["validations"], ""]), encoding="utf-8")
    path = tmp_path / "runs.json"
    path.write_text(json.dumps({key: runs[key] for key in runs if key != name}), encoding="utf-8")
    stored.add(str(path), str(tmp_path / name), "test")
    assert path.read_bytes() == (ROOT / "results/multi30k/small/runs.json").read_bytes()


def test_every_shipped_config_loads_and_states_its_score_cost_and_command():
    paths = sorted((ROOT / "configs").rglob("*.yaml"))
    assert paths
    for path in paths:
        expand(config.load(str(path), []))
        header = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#"))
        assert all(word in header for word in ("Expected ", "Cost", "Command")), path
        for folder in re.findall(r"(?<!docs/)results/\w+(?:/\w+)?", header):
            assert (ROOT / folder).exists(), folder


@pytest.mark.parametrize("name", [name for name in PAGES if tables_in_pages.END in page(name)])
def test_tables_in_pages_equal_the_committed_results(name):
    assert len(tables_in_pages.TABLE.findall(page(name))) == page(name).count(tables_in_pages.END)  # all marks are read
    assert tables_in_pages.filled(page(name)) == page(name), "run python scripts/write_docs.py"


def test_the_design_page_names_existing_files_and_every_part_of_the_package():
    text = page("docs/concepts/design.md")
    existing = {path.name for path in ROOT.rglob("*.py")}
    for name in re.findall(r"\b(\w+\.py)\b", text):
        assert name in existing, name
    package = ROOT / "memattn"
    for name in {path.relative_to(package).parts[0] for path in package.rglob("*.py")}:
        assert name == "__init__.py" or name in text, name


def test_every_key_that_the_pages_set_exists():
    keys = re.findall(r"--set[\s=]+'?([a-z][\w.]+)=", "".join(map(page, PAGES)))
    assert keys
    path = str(ROOT / "configs/copy/small.yaml")
    neural_gpu, tree = (
        yaml.safe_load(config.dump(config.load(path, overrides)))
        for overrides in (["model.kind=neural_gpu"], ["data={task: {name: sort}}", "decoding.sample={}"])
    )
    tree["model"] = neural_gpu["model"] | tree["model"]  # keys of both kinds of model
    for key in keys:
        node = tree
        for part in key.split("."):
            node = node[part]


def test_the_page_on_the_first_model_prints_the_scores_of_the_committed_run():
    text, run = page("docs/start/first_model.md"), ROOT / "results/first_model"
    result = Result.from_json(json.loads((run / "result.json").read_text("utf-8")))
    assert f"```text\n{summary(result)}\n" in text
    for row in read_csv(str(run / "validation.csv")):
        step, bleu, exact_match = int(row["step"]), float(row["bleu"]), float(row["exact_match"])
        assert f"validation at step {step:,}: BLEU {bleu:.2f}  exact match {exact_match:.1f}%" in text


@pytest.mark.slow
def test_the_commands_of_the_first_model_run(tmp_path, command):
    changes = ["data.copy.train_examples=20", "data.copy.valid_examples=8", "model.units=8", "training.max_steps=2"]
    changes += ["training.jit_compile=false", "decoding.jit_compile=false"]
    text = page("docs/start/first_model.md").replace("\\\n", "")
    commands = re.findall(r"^(?:echo \"(.*)\" \| )?memattn-(\w+) (.*--run_dir runs/first.*)$", text, flags=re.MULTILINE)
    assert [name for _, name, _ in commands] == ["train", "eval", "translate"]
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    for line, name, arguments in commands:
        overrides = [f"--set={change}" for change in changes] if name == "train" else []
        assert command(tmp_path, f"memattn.{name}", *shlex.split(arguments), *overrides, stdin=line).stdout
