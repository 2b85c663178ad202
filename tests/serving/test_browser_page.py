"""The page that translates in the browser agrees with Python; it runs in Chromium."""

import functools
import http.server
import json
import pathlib
import queue
import re
import shutil
import subprocess
import threading
from types import SimpleNamespace

import browser_page
import pytest
from helpers.files import lines_of
from helpers.pages import browser
from helpers.repository import ROOT, run_python
from helpers.runs import tiny

from memattn.runs.trained import load

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from memattn.onnx_export.export import export
from memattn.serving.translator import load_onnx

LINES = [  # for the rules of the tokenizer
    "A man in a red T-shirt, with a hat, plays the guitar.",
    "Mr. Smith's dogs, 5,300 of them, don't run (fast)?",
    "3.5 % of “quotes” & <tags> ... and more..",
    "No. 5 of the U.S. team is here. no. it is not.",
    "The dogs' toys, it's 5's, 'quoted' and rock 'n' roll.'",
    "  two   blanks\tand ％ @@ a@@ e.g. $5 1/2 a_b naïve ½ 5, ",
    "a. B",
    "-",
]
WORDS = ["Ein „ Mann “ geht , ( schnell ) .", "' a ' \" b \" $ 5 @-@ c ! ?", "¿ x ; y : 5 %"]
CHECK = """<!doctype html><iframe id="frame" height="900"></iframe><script type="module">
import { InferenceSession } from "./runtime/ort.wasm.bundle.min.mjs";
import { Model, align, stepTime, translate } from "./page.js";
const { sentences, lines, words } = await (await fetch("given.json")).json();
const content = await (await fetch("page.json")).json();
const results = [];
for (const description of content.models) {
  const model = await Model.load(description, content.abbreviations, content.abbreviations_before_numbers);
  const { tokenizer } = model;
  const translations = [];
  for (const sentence of sentences) {
    const { units, source, text, score, ids } = await translate(model, sentence);
    const { steps } = await align(model, source, ids);
    const weights = steps.map(({ positions }) => Array.from(positions));
    translations.push({ text, score, weights, slots: steps[0]?.slots?.length ?? 0 });
  }
  const units = lines.map((line) => tokenizer.segment(line));
  results.push({ translations, units, words: words.map((line) => tokenizer.detokenize(line)) });
}
const times = [];
for (const { file } of content.timing) times.push(await stepTime(await InferenceSession.create(file), 30));
const frame = document.getElementById("frame");
const shown = [];
const until = async (isTrue) => { while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 50)); };
for (const width of [400, 1400]) {
  frame.width = width;
  frame.src = `index.html?${width}`;
  await new Promise((resolve) => frame.addEventListener("load", resolve, { once: true }));
  const $ = (id) => frame.contentDocument.getElementById(id);
  const isDone = () => !$("reading-box").hidden && !$("status").textContent;
  await until(isDone);
  $("source").value = sentences[0];
  $("compare").click();
  await until(() => !$("comparison-box").hidden && isDone());
  $("measure").click();
  await until(() => $("measure").textContent === "Measure again");
  const page = frame.contentDocument.documentElement;
  shown.push({
    translation: $("translation").innerText,
    time: $("time").textContent,
    beam: $("beam").tBodies[0].rows.length,
    slots: frame.contentDocument.querySelectorAll(".heights .slots > div").length,
    compared: [...$("comparison").rows].map((row) => row.cells[2].textContent),
    lines: $("chart").querySelectorAll("polyline").length,
    overflow: page.scrollWidth - frame.contentWindow.innerWidth,
  });
}
await fetch("results", { method: "POST", body: JSON.stringify({ results, times, shown }) });
</script>"""


FAKE_RUNTIME = """
export const env = { wasm: {} };
export class Tensor { constructor(type, data, dims) { Object.assign(this, { type, data, dims }); } }
export const InferenceSession = { create: async (url) => {
  if (url.includes("timing")) throw new Error("no graph");
  if (url.includes("models/2")) await new Promise((resolve) => setTimeout(resolve, 500));
  return { run, inputNames: ["tokens", "continuations", "hidden"], outputNames: ["next_hidden"] };
} };
async function run({ source, tokens, continuations }) {  // of an encoder, or a step that writes a word and then ends
  const width = source ? 1 : tokens.data.length;
  const hidden = new Tensor("float32", new Float32Array(width), [1, width, 1]);
  if (source) return { hidden };
  const number = Number(continuations.data[0]);
  const dims = [1, width, number];
  const next = (last) => Array.from({ length: number }, (_, c) => (c === Number(last === 1) ? 2 : 4));
  const data = tokens.data.flatMap(next);
  const logProbs = Float32Array.from(data, (_, i) => -1 - (i % number));
  return { next_tokens: { data, dims }, log_probs: { data: logProbs }, next_hidden: hidden };
}
"""
USE = """<!doctype html><iframe id="frame" src="index.html"></iframe><script type="module">
const frame = document.getElementById("frame");
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const until = async (isTrue) => { while (!isTrue()) await pause(20); };
const $ = (id) => frame.contentDocument.getElementById(id);
const choose = (i) => frame.contentDocument.querySelectorAll("[name=model]")[i].click();
await until(() => frame.contentDocument.readyState === "complete" && $("time")?.textContent);
const time = $("time").textContent;
choose(1);
await until(() => $("status").textContent.includes("failed"));
const failed = $("status").textContent;
choose(0);
await until(() => !$("status").textContent);
choose(1);
$("source").value = " ";
$("translate").click();
await pause(1500);
const empty = $("status").textContent;
$("source").value = "a man";
$("time").textContent = "";
$("compare").click();
$("source").value = "another";
await until(() => $("time").textContent);
const compared = [...$("comparison").rows].map((row) => row.cells[2].textContent);
$("measure").click();
await until(() => $("status").textContent.includes("no graph"));
await fetch("results", { method: "POST", body: JSON.stringify(
  { time, failed, empty, compared, hidden: $("comparison-box").hidden, disabled: $("measure").disabled }) });
</script>"""


def test_the_bleu_of_a_model_is_that_of_its_weights_although_another_one_is_higher():
    rows = [{"step": str(step), "bleu": str(bleu), "examples": "30"} for step, bleu in ((3, 9.5), (6, 7.25), (9, 8))]
    run = SimpleNamespace(validations=rows, metadata={"training_pairs": 60})
    trained = SimpleNamespace(runs=[run], config=tiny({}), checkpoints=["run/best/step-6"], max_source_length=5)
    description = browser_page._description(trained)
    assert (description["step"], description["bleu"], description["epochs"]) == (6, 7.25, 0.5)


def test_a_page_that_fails_leaves_no_folder_although_its_path_ends_with_a_slash(tmp_path, monkeypatch):
    options = SimpleNamespace(output=f"{tmp_path}/build/page/", run_dir=[])
    monkeypatch.setattr(browser_page.flags, "FLAGS", options)
    monkeypatch.setattr(browser_page, "_write", lambda *_: 1 / 0)  # in place of a failed download
    with pytest.raises(ZeroDivisionError):
        browser_page.main()
    assert list((tmp_path / "build").iterdir()) == []


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    """The folder of a page with both models, in float32."""
    folder = tmp_path_factory.mktemp("browser") / "page"
    flags = ["--format=onnx", f"--output={folder}", *(f"--run_dir={run}" for run in runs[0])]
    result = run_python(ROOT / "scripts/browser_page.py", *flags, may_fail=True)
    if "ConnectionPool(" in result.stderr:  # of requests
        pytest.skip("needs the npm package onnxruntime-web, or a connection to download it")
    assert result.returncode == 0, result.stderr
    return folder


def results_of(page, missing=(), seconds=240):
    """Returns what check.html of a page sends from Chromium, and the messages of its console.

    The first request for each path that is `missing` fails.
    """
    results, missing = queue.Queue(), list(missing)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            if self.path not in missing:
                return super().do_GET()
            missing.remove(self.path)
            return self.send_error(404)

        def do_POST(self):
            results.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=page)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
        command = [browser(), *flags, f"--user-data-dir={page.parent / 'profile'}"]
        with open(page.parent / "log.txt", "wb") as log:
            process = subprocess.Popen([*command, f"http://127.0.0.1:{server.server_port}/check.html"], stderr=log)
            try:
                sent = results.get(timeout=seconds)
            except queue.Empty:
                pytest.fail((page.parent / "log.txt").read_text(encoding="utf-8"))
            finally:
                process.terminate()
                process.wait()
                server.shutdown()
    return sent, [line for line in lines_of(page.parent / "log.txt") if "CONSOLE" in line]


@pytest.fixture(scope="module")
def measured(page, runs):
    """The results that the page of the models sends from Chromium, and the messages of its console."""
    browser()
    given = {"sentences": lines_of(runs[1] / "test.en")[:5], "lines": LINES, "words": WORDS}
    (page / "given.json").write_text(json.dumps(given), encoding="utf-8")
    (page / "check.html").write_text(CHECK, encoding="utf-8")
    return results_of(page)


@pytest.mark.slow
def test_the_page_says_what_is_missing_and_shows_what_was_asked_for(tmp_path):
    """The page has two models without attention. The second one loads slowly, and the first attempt fails."""
    page = tmp_path / "page"
    shutil.copytree(browser_page.PAGE, page)
    model = {"name": "none", "colour": "red", "bleu": 1, "bytes": 1, "units": 8, "training_pairs": 9, "epochs": 1}
    model |= {"max_source_length": 9, "length_penalty": 0, "max_length_ratio": 2, "max_length": None}
    content = {"models": [], "timing": [{"file": "timing/none.onnx"}]}
    content |= {"format": "", "abbreviations": [], "abbreviations_before_numbers": []}
    for folder in ("models/1", "models/2"):
        (page / folder).mkdir(parents=True)
        (page / folder / "vocab.txt").write_text("ein\n")
        (page / folder / "bpe.codes").write_text("#version: 0.2\n")
        content["models"].append({**model, "folder": folder})
    (page / "runtime").mkdir()
    (page / "runtime/ort.wasm.bundle.min.mjs").write_text(FAKE_RUNTIME)
    (page / "page.json").write_text(json.dumps(content))
    (page / "check.html").write_text(USE)
    sent, _ = results_of(page, missing=["/models/2/vocab.txt"], seconds=60)
    assert "Move over" not in sent["time"]
    assert sent["failed"].endswith("/models/2/vocab.txt: 404")
    assert sent["empty"] == "Please write an English caption."
    assert (sent["compared"], sent["hidden"]) == (["ein", "ein"], False)
    assert not sent["disabled"]


@pytest.mark.slow
def test_a_page_without_a_server_says_that_it_needs_one(tmp_path):
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    command = [browser(), *options, (pathlib.Path(browser_page.PAGE) / "index.html").as_uri()]
    dumped = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert 'role="status">The page cannot load its script or ONNX Runtime: it needs a web server' in dumped


@pytest.mark.long
@pytest.mark.parametrize("which", [0, 1])
def test_translations_scores_and_weights_are_those_of_python(measured, runs, tmp_path, which):
    trained = load([runs[0][which]], [], None)
    export(trained, str(tmp_path / "onnx"))
    sentences = lines_of(runs[1] / "test.en")[:5]
    expected = list(load_onnx(str(tmp_path / "onnx"), alignment="soft", beam_size=5)(sentences, 1))
    translations = measured[0]["results"][which]["translations"]
    for translation, line in zip(translations, map(json.loads, expected), strict=True):
        assert translation["text"] == line["text"]
        assert translation["score"] == pytest.approx(line["score"], abs=1e-3)
        for weights, wanted in zip(translation["weights"], line["weights"], strict=True):
            assert weights[:-1] == pytest.approx(wanted, abs=1e-3)  # the last is that of the end of sentence
        assert translation["slots"] == (0, 32)[which == 0]


@pytest.mark.long
def test_the_page_splits_text_as_python_and_shows_translation_beam_slots_and_times(measured, runs):
    sent, messages = measured
    tokenizer = load([runs[0][0]], [], None).tokenizer
    assert sent["results"][0]["units"] == [tokenizer.encode(line, "source") for line in LINES]
    assert sent["results"][0]["words"] == tokenizer.detokenize(WORDS)
    texts = [result["translations"][0]["text"] for result in sent["results"]]
    for shown in sent["shown"]:
        assert shown["translation"].replace(" ", "") == texts[0].replace(" ", "")
        assert re.match(r"\d+ ms: encoder and \d+ decoder steps, beam 5", shown["time"])
        assert (shown["beam"], shown["slots"], shown["lines"]) == (5, 32, 2)
        assert shown["compared"] == texts
        assert shown["overflow"] <= 0
    assert min(sent["times"]) > 0
    assert messages == []
