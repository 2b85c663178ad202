"""Builds a page that translates captions in the browser, and shows what each word read from the slots.

python scripts/browser_page.py --run_dir runs/multi30k.en-de --run_dir runs/multi30k.4_slots --output build/page
python -m http.server --directory build/page

The folder needs nothing but a web server of static files. ONNX Runtime's files come from its npm package.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import json
import os
import pathlib
import shutil
from typing import TYPE_CHECKING, Any

import pooch
from absl import flags
from sacremoses import MosesTokenizer

from memattn import files
from memattn.data.tokenizer import SETTINGS, SubwordTokenizer, TextSettings
from memattn.errors import ConfigError
from memattn.evaluation import styles
from memattn.export import exporter

if TYPE_CHECKING:
    from memattn.runs.trained import Trained

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "browser/static")
RUNTIME = "https://registry.npmjs.org/onnxruntime-web/-/onnxruntime-web-1.30.0.tgz"
RUNTIME_CHECKSUM = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"
RUNTIME_FILES = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")  # for CPUs
FORMATS = {
    "onnx-int8": "Weights are rounded to 8 bits, which changes a few translations.",
    "onnx": "Weights are those of training, in 32 bits.",
}
TEXT = TextSettings("raw", "en", "de")  # the page has rules for English sources and German targets


def main() -> None:
    from memattn.runs.trained import load

    options = flags.FLAGS
    files.check_new(options.output)
    runs = [load([run_dir], ["decoding.lexicon=null"]) for run_dir in options.run_dir]
    for run_dir, trained in zip(options.run_dir, runs, strict=True):
        tokenizer = trained.tokenizer
        if not isinstance(tokenizer, SubwordTokenizer) or tokenizer.settings != TEXT:
            raise ConfigError(f"--run_dir: {run_dir} does not translate raw text from English to German by BPE")
    files.make_folder(os.path.dirname(os.path.normpath(options.output)))
    with files.making_folder(options.output) as folder:
        _write(options, runs, folder)
        size = _size(folder)
    print(f"{options.output}: models: {len(runs)}; {size / 1e6:.1f} MB")
    print(f"python -m http.server --directory {options.output}")


def _write(options: flags.FlagValues, runs: list["Trained"], page: str) -> None:
    """Writes the page of trained runs into a folder."""
    from browser.graphs import add_slots, write_timing_graphs

    export = exporter(options.format)
    shutil.copytree(PAGE, page, dirs_exist_ok=True)
    models = []
    for number, trained in enumerate(runs, 1):
        folder = os.path.join(page, "models", str(number))
        export(trained, folder)
        for name in ("export.json", SETTINGS):  # the first has paths of this machine
            os.remove(os.path.join(folder, name))
        add_slots(os.path.join(folder, "encoder.onnx"), os.path.join(folder, "decoder_step.onnx"))
        exported = {"folder": f"models/{number}", "bytes": _size(folder)}
        models.append({**exported, **_description(trained)})
    timed: Any = next((run for run in runs if styles.attention(run.config).get("num_slots")), runs[0]).models[0]
    moses = MosesTokenizer("en")
    content = {
        "models": models,
        "format": FORMATS[options.format],
        "timing": [
            {"file": file, "name": styles.words(attention), "colour": _colour(attention)}
            for file, attention in write_timing_graphs(timed, page)
        ],
        "abbreviations": [word for word in moses.NONBREAKING_PREFIXES if " " not in word],
        "abbreviations_before_numbers": moses.NUMERIC_ONLY_PREFIXES,
    }
    files.write(os.path.join(page, "page.json"), json.dumps(content, indent=1) + "\n")
    _copy_runtime(options.onnxruntime_web, os.path.join(page, "runtime"))


def _size(folder: str) -> int:
    """Returns the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*") if path.is_file())


def _description(trained: "Trained") -> dict[str, Any]:
    """Returns what the page says about a model, and how to search with it."""
    from memattn.runs.checkpoints import step_of

    (run,), config, attention = trained.runs, trained.config, styles.attention(trained.config)
    step, pairs = step_of(trained.checkpoints[0]), run.metadata["training_pairs"]
    validation = next(row for row in run.validations if int(row["step"]) == step)
    return {
        "name": styles.words(attention),
        "colour": _colour(attention),
        "mechanism": attention["name"],
        "slots": attention.get("num_slots", 0),
        "units": config.model.units,
        "bleu": float(validation["bleu"]),
        "step": step,
        "epochs": int(validation["examples"]) / pairs,
        "training_pairs": pairs,
        "max_source_length": trained.max_source_length,
        **{key: getattr(config.decoding, key) for key in ("length_penalty", "max_length_ratio", "max_length")},
    }


def _colour(attention: Any) -> str:
    """Returns the colour of memory attention for a model with slots, and of Bahdanau attention for another."""
    return styles.STYLES["memory" if attention.get("num_slots") else "bahdanau"].colour


def _copy_runtime(package: str | None, folder: str) -> None:
    """Copies ONNX Runtime's files from a folder of them, or from its npm package, which is downloaded."""
    os.makedirs(folder)
    if package is None:
        unpack = pooch.Untar([f"package/dist/{name}" for name in RUNTIME_FILES])
        paths = pooch.retrieve(RUNTIME, RUNTIME_CHECKSUM, path=pooch.os_cache("memattn"), processor=unpack)
        package = os.path.dirname(paths[0])
    for name in RUNTIME_FILES:
        shutil.copy(os.path.join(package, name), folder)


if __name__ == "__main__":
    meaning = "Run folder of memattn-train, English to German; repeatable. The first model with slots is timed."
    flags.DEFINE_multi_string("run_dir", None, meaning, required=True)
    flags.DEFINE_string("output", None, "Folder of the page, which must not exist.", required=True)
    flags.DEFINE_enum("format", "onnx-int8", list(FORMATS), "Weights in 8 bits, or in float32.")
    meaning = "Folder dist/ of the npm package onnxruntime-web 1.30.0 (default: downloaded)."
    flags.DEFINE_string("onnxruntime_web", None, meaning)
    cli.run(main, tensorflow=True)
