"""The report of runs: what its page says, that all text is escaped, and that its script shades tokens."""

import html
import html.parser
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from helpers.pages import browser
from helpers.runs import NO_STRATEGY, evaluate, free, made_up_result, tiny

from memattn.errors import DataError, RunError
from memattn.evaluation.metrics import Comparison, bleu
from memattn.reports import content, page
from memattn.reports.content import Attention, Example, ReportedRun, Translated
from memattn.runs.trained import load
from memattn.training.trainer import train

HOSTILE = "</script><script>alert(1)</script> & \u2028 <!-- \"'"


class Page(html.parser.HTMLParser):
    """The parts of a page.

    Attributes:
      pieces: text outside of scripts and styles, between tags.
      tags: tags with their attributes.
      data: contents of the scripts with data.
    """

    def __init__(self, document):
        super().__init__()
        self.pieces, self.tags, self.data, self._open = [], [], [], []
        self.feed(document)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._open.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        while self._open.pop()[0] != tag:  # tags without an end
            pass

    def handle_data(self, data):
        tag, attributes = self._open[-1] if self._open else ("", {})
        if tag == "script" and attributes.get("type") == "application/json":
            self.data.append(json.loads(data))
        elif tag not in ("script", "style"):
            self.pieces.append(data)

    @property
    def text(self):
        return "".join(self.pieces)


def made_up_run(config, folder="runs/a", *, sources=("a b", "c"), evaluated=([], []), overrides=()):
    """A run that was not evaluated, unless `evaluated` has its hypotheses and references."""
    hypotheses, references = evaluated
    lines = [source.split() for source in sources]
    return ReportedRun(
        folder=folder,
        config=config,
        overrides=list(overrides),
        curves={"bleu": {10: 1.5, 20: 42.25}},
        sources=lines,
        text=[" ".join(line).replace("@@ ", "") for line in (*lines, *lines)],
        by_characters=False,
        result=made_up_result(config) if hypotheses else None,
        hypotheses=hypotheses,
        references=references,
    )


def made_up_example(run, *, token="a", source="a b", written="x"):
    attention = Attention(
        [token, "b", "</s>"],
        [written, "</s>"],
        np.array([[0.9, 0.1, 0.0], [-0.25, 0.5, 0.75]]),
        [7, 2],
        np.array([[0.8, 0.2], [0.0, 1.0]]),
        np.array([[1.0, 0.0, 0.0], [0.0, 0.25, 0.75]]),
    )
    return Example(3, source, "the reference", [Translated(run, "the translation", attention)])


def test_text_is_shown_as_it_is_and_never_as_html():
    config = tiny({})
    plain_run, run = made_up_run(config), made_up_run(config, folder=f"runs/{HOSTILE}")
    plain = Page(page.page([plain_run], [[made_up_example(plain_run)]], "valid"))
    hostile = Page(page.page([run], [[made_up_example(run, token=HOSTILE, source=f"source {HOSTILE}")]], "valid"))
    assert f"source {HOSTILE}" in hostile.text
    assert f"{HOSTILE}b" in "".join(hostile.text.split("\n"))  # tokens of the source
    assert hostile.text.count(f"runs/{HOSTILE}") >= 5
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    (data,) = hostile.data  # in thousandths
    assert (data["slots"], data["weights"]) == ([7, 2], [[900, 100, 0], [-250, 500, 750]])
    assert (data["reads"], data["alpha"]) == ([[800, 200], [0, 1000]], [[1000, 0, 0], [0, 250, 750]])
    assert plain.data == hostile.data


def test_the_page_loads_nothing():
    run = made_up_run(tiny({}), evaluated=(["a b", "c"], ["a b", "d"]))
    document = page.page([run], [[made_up_example(run)]], "valid")
    for tag, attributes in Page(document).tags:
        assert tag not in ("link", "img", "iframe", "object")
        links = [value for name, value in attributes.items() if name in ("src", "href", "xlink:href")]
        assert all(link.startswith("#") for link in links), (tag, links)
    assert not re.search(r"url\((?!#)|@import|fetch\(", document)
    ids = [attributes["id"] for _, attributes in Page(document).tags if "id" in attributes]
    assert len(re.findall(r"<svg[^>]* viewBox", document)) >= 2
    assert not [name for name in ids if re.fullmatch(r"(figure|axes|text)_\d+", name)]


def test_scores_stand_with_their_signatures_and_differences_of_the_configs_below():
    first = made_up_run(tiny({}), evaluated=(["a b", "c"], ["a b", "d"]))
    second = made_up_run(tiny({"training.learning_rate": 0.25}), "runs/b", overrides=["data.folder=my data"])
    result = made_up_result(
        first.config, scores={"bleu": 50.25, "sacrebleu": 61.5}, signatures={"sacrebleu": "nrefs:1|v"}
    )
    first = ReportedRun(**{**vars(first), "result": result})
    document = Page(page.page([first, second], [], "valid"))
    text, cells = document.text, [piece.strip() for piece in document.pieces if piece.strip()]
    for expected in ("50.25", "61.50", "memory, K = 3", "1.5 s (1.25-2)", "99"):
        assert expected in cells
    assert "sacreBLEUnrefs:1|v" in text
    row = cells.index("training.learning_rate")
    assert cells[row + 1 : row + 3] == ["0.01", "0.25"]
    assert "runs/b has no evaluation on valid" in text
    assert "memattn-eval --run_dir runs/b --split valid --set 'data.folder=my data'" in text


def test_buckets_of_lengths_have_the_bleu_of_their_sentences():
    draw = np.random.RandomState(3)
    lengths = draw.randint(4, 30, 100)
    references = [" ".join(draw.choice(list("abcd"), 8)) for _ in lengths]
    hypotheses = [" ".join(draw.choice(list("abcd"), 2)) + reference[3:] for reference in references]
    sources = ["s " * length for length in lengths]
    run = made_up_run(tiny({}), sources=sources, evaluated=(hypotheses, references))
    buckets = page.length_buckets([run, made_up_run(tiny({}), sources=sources)])
    for bucket in buckets:
        start, end = map(int, bucket.lengths.split("–"))
        indices = np.flatnonzero((start <= lengths) & (lengths <= end))
        chosen = [[lines[index] for index in indices] for lines in (hypotheses, references)]
        assert bucket.scores == [(bleu(Comparison(*chosen)).value, len(indices)), (None, len(indices))]
    assert sum(bucket.scores[0][1] for bucket in buckets) == 100
    assert len(buckets) == 5


@pytest.mark.parametrize(
    ("lengths", "number", "expected"),
    [([5, 1, 3, 2, 4], 3, [1, 2, 0]), ([0, 200, 7], 10, [2]), ([300, 200], 2, [1])],
)
def test_examples_are_spread_over_the_lengths(lengths, number, expected):
    assert content.spread(lengths, number) == expected


def test_runs_with_other_test_sets_are_said_to_be_incomparable():
    same = [made_up_run(tiny({}), name) for name in ("runs/a", "runs/b")]
    different = made_up_run(tiny({}), "runs/c", sources=("a b", "d"))
    assert content.by_test_set([*same, different]) == [same, [different]]
    sentences = [[made_up_example(same[0], source="first")], [made_up_example(different, source="second")]]
    document = page.page([*same, different], sentences, "valid")
    assert "scores cannot be compared" in document
    assert document.count("<h2>Example translations of") == 2
    assert "scores cannot be compared" not in page.page(same, [], "valid")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with runs on one corpus: memory attention, evaluated; Bahdanau attention; no attention."""
    folder = tmp_path_factory.mktemp("report")
    options = {"memory": {"num_slots": 8}, "bahdanau": {}, "none": {}}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # its data are in data/
        for name, attention in options.items():
            changes = {"model.attention": {"name": name, **attention}, "training.max_steps": 3}
            assert train(tiny(changes), name, NO_STRATEGY) == 0
        evaluate("memory")
    free()
    return folder


def report(command, folder, *arguments):
    """Writes report.html; returns its content."""
    result = command(folder, "memattn.report", *arguments, "--output=report.html")
    assert result.stderr == ""
    assert result.stdout.startswith("report.html: memory")
    advice = "make one with: memattn-eval --run_dir bahdanau --split valid\n"
    assert (advice in result.stdout) == ("bahdanau" in arguments)
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_report_shows_scores_and_translations_of_all_runs(command, folder):
    result = json.loads((folder / "memory/eval/valid/result.json").read_text(encoding="utf-8"))
    document = report(command, folder, "memory", "bahdanau", "none", "--examples=4")
    content = Page(document)
    assert f"{result['bleu']:.2f}" in content.pieces
    assert f"{result['parameters']:,}" in content.pieces
    assert content.text.count("This model has no attention") == 4
    assert [bool(data["slots"]) for data in content.data] == [True, False] * 4
    for number in map(int, re.findall(r"Line (\d+)", content.text)):
        (path,) = (folder / "data").rglob("valid.source")
        assert path.read_text(encoding="utf-8").splitlines()[number - 1] in content.pieces
    assert len(document) < 500_000


@pytest.mark.slow
def test_weights_of_slots_add_up_to_those_of_the_model(folder, monkeypatch):
    monkeypatch.chdir(folder)
    run = content.read("memory", "valid", [])
    *_, longest = content.examples([run], "valid", 5, [])
    attention = longest.translations[0].attention
    assert len(attention.source) == 5  # with the end of sentence
    trained = load(["memory"], [], None)
    source, target = (np.array([trained.vocabulary.encode(side[:-1])]) for side in (attention.source, attention.target))
    expected = trained.model.alignments(source, target)[0].numpy()
    np.testing.assert_allclose(attention.weights, expected, atol=1e-5)
    assert sorted(attention.slots) == [1, 2, 3, 4, 5, 6, 7, 8]  # after a few steps, all are read
    np.testing.assert_allclose(attention.reads @ attention.alpha, expected, atol=1e-5)
    np.testing.assert_allclose(attention.alpha.sum(1), np.ones(8), rtol=1e-5)


@pytest.mark.slow
def test_a_report_without_examples_needs_no_checkpoint(command, folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "memory" / "best")
    assert "Example translations" not in report(command, tmp_path, "memory", "--examples=0")
    before = (tmp_path / "report.html").read_bytes()
    result = command(tmp_path, "memattn.report", "memory", "--output=report.html", may_fail=True)
    assert result.returncode == 1
    assert re.fullmatch("error: memory: no best checkpoint yet.*\n", result.stderr)
    assert (tmp_path / "report.html").read_bytes() == before


@pytest.mark.slow
def test_missing_scores_are_left_out_and_runs_that_cannot_be_reported_are_refused(folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    before = content.read("memory", "valid", []).curves["exact_match"]
    path = tmp_path / "memory/validation.csv"
    path.write_text(path.read_text().rsplit(",", 2)[0])  # cut off in the last row
    assert list(content.read("memory", "valid", []).curves["exact_match"]) == list(before)[:-1]
    evaluation = tmp_path / "memory/eval/valid"
    (evaluation / "references.txt").write_text("a\n")
    with pytest.raises(DataError, match="valid has 12 lines .* and memory: references has 1 lines"):
        content.read("memory", "valid", [])
    (evaluation / "references.txt").write_text(12 * "a\n")
    with pytest.raises(DataError, match="memory: its evaluation on valid has other references than data/.*; name"):
        content.read("memory", "valid", [])
    (evaluation / "result.json").write_text("{}")
    with pytest.raises(DataError, match="result.json: config is missing"):
        content.read("memory", "valid", [])
    path.unlink()
    with pytest.raises(RunError, match="no validation yet"):
        content.read("memory", "valid", [])


ACTIONS = """
<script>
const block = document.querySelector(".attention");
const seen = [];
function see() {
  const shades = [...block.querySelectorAll(".source > *")].map((token) => token.style.getPropertyValue("--weight"));
  const numbers = [...block.querySelectorAll(".source small")].map((number) => number.textContent);
  seen.push({ shades, numbers, reading: block.querySelector(".reading").textContent });
}
see();
const [first, second] = block.querySelectorAll(".target button");
second.dispatchEvent(new PointerEvent("pointerenter"));
see();
first.focus();
first.dispatchEvent(new KeyboardEvent("keydown", { key: "ARROW" }));
see();
block.querySelectorAll(".slots button")[1].click();
see();
document.body.innerHTML = "";
document.body.textContent = JSON.stringify(seen);
</script>
"""


@pytest.mark.slow
@pytest.mark.parametrize(("written", "arrow"), [("x", "ArrowRight"), ("\u05d0", "ArrowLeft")])  # Hebrew
def test_the_script_shades_the_source_of_the_chosen_token_or_slot(tmp_path, written, arrow):
    run = made_up_run(tiny({}))
    path = tmp_path / "page.html"
    document = page.page([run], [[made_up_example(run, token="<b>", written=written)]], "valid")
    path.write_text(document + ACTIONS.replace("ARROW", arrow), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    command = [browser(), *options, path.as_uri()]
    dumped = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    seen = re.sub("[\u2068\u2069]", "", re.search(r"<body>(.*)</body>", dumped, re.DOTALL)[1])  # isolates
    at_first, hovered, moved, slot = json.loads(html.unescape(seen))
    assert at_first["numbers"] == ["90", "10", ""]
    assert at_first["reading"] == f"“{written}” attends to: “<b>” (90%), “b” (10%); slots: 7 (80%), 2 (20%)."
    assert hovered["numbers"] == ["-25", "50", "75"]
    shares = np.array(hovered["shades"], float) / 0.85
    np.testing.assert_allclose(shares**2, np.array([0.25, 0.5, 0.75]) / 0.9, atol=2e-3)
    assert hovered["reading"] == "“</s>” attends to: “</s>” (75%), “b” (50%), “<b>” (-25%); slots: 2 (100%)."
    assert moved == hovered
    assert slot["numbers"] == ["", "25", "75"]
    assert slot["reading"].startswith("Slot 2 holds (α): “</s>” (75%), “b” (25%).")
