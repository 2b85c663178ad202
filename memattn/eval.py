"""Evaluates a trained run: hypotheses, BLEU, decode time, pictures of alignments.

python -m memattn.eval --run_dir runs/small
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import json
import os
import shlex
import statistics
import sys
from typing import Any

import tensorflow as tf
from absl import flags
from tqdm import tqdm

from memattn import config as configs
from memattn import data, decoding, metrics, run, visualize
from memattn.attention import MECHANISMS
from memattn.config import Config, ConfigError
from memattn.data import Sentences
from memattn.model import Seq2Seq
from memattn.run import RunError
from memattn.vocab import Vocabulary

RESULT, HYPOTHESES, N_BEST = "result.json", "hypotheses.txt", "n_best.tsv"


def evaluate(
    run_dir: str, overrides: list[str], *, split: str, repeats: int, plots: int, output_dir: str
) -> dict[str, Any]:
    """Decodes a split with the best checkpoint of a run, writes what came out and returns the result.

    `overrides` may change `data.folder` and `decoding.*`. Raises ConfigError, DataError, RunError, OSError.
    """
    config = _load_config(run_dir, overrides)
    model, vocabulary = run.load_model(run_dir, config)
    checkpoint = run.restore(run.checkpoint(model), os.path.join(run_dir, run.BEST))
    if checkpoint is None:
        every = config.training.validate_every
        raise RunError(f"{run_dir}: no best checkpoint yet; training writes one every {every:,} steps, as it validates")
    corpus = data.read_corpus(config.data.path, split, vocabulary)
    references = data.read_references(config.data.path, split)
    searcher = decoding.Searcher(model, config.decoding)
    decoding.warm_up(searcher, corpus.source, config.data.num_buckets)
    seconds = []
    for _ in tqdm(range(repeats), desc=f"decoding {len(corpus):,} sentences", unit="run", disable=None):
        translations, elapsed = decoding.decode(searcher, corpus.source, vocabulary, config.data.num_buckets)
        seconds.append(elapsed)
    hypotheses = [translation.best for translation in translations]
    scores = metrics.score(hypotheses, references)
    tokens = sum(len(hypothesis.split()) + 1 for hypothesis in hypotheses)
    median = statistics.median(seconds)
    result = {
        **scores._asdict(),
        "decode_seconds": median,
        "decode_seconds_min": min(seconds),
        "decode_seconds_max": max(seconds),
        "repeats": repeats,
        "sentences_per_second": len(corpus) / median,
        "tokens_per_second": tokens / median,
        "excluded_from_time": "model construction, tracing and compiling, data loading, batching, ids to text",
        "sentences": len(corpus),
        "split": split,
        "beam_size": config.decoding.beam_size,
        "batch_size": config.decoding.batch_size,
        "jit_compile": run.jit_compile(config.decoding.jit_compile),
        "dtype": "float32",
        "seed": config.training.seed,
        "parameters": model.count_params(),
        "step": int(checkpoint.rpartition("-")[2]),
        "checkpoint": checkpoint,
        **run.conditions(),
        "command": shlex.join(["python", "-m", "memattn.eval", *sys.argv[1:]]),
        "config": configs.to_dict(config),
    }
    os.makedirs(output_dir, exist_ok=True)
    run.write(os.path.join(output_dir, HYPOTHESES), "".join(f"{hypothesis}\n" for hypothesis in hypotheses))
    if config.decoding.n_best > 1:
        lines = [
            f"{i}\t{score:.6f}\t{' '.join(tokens)}\n"
            for i, translation in enumerate(translations)
            for tokens, score in zip(translation.hypotheses, translation.scores, strict=True)
        ]
        run.write(os.path.join(output_dir, N_BEST), "".join(lines))
    run.write(os.path.join(output_dir, RESULT), json.dumps(result, indent=2) + "\n")
    _plot(model, vocabulary, corpus.source, translations, plots, os.path.join(output_dir, "alignments"))
    return result


def report(result: dict[str, Any]) -> str:
    """The result in a few lines for people."""
    spread = f"{result['decode_seconds_min']:.3g} to {result['decode_seconds_max']:.3g}"
    return (
        f"BLEU                {result['bleu']:.2f}  {result['bleu_signature']}\n"
        f"BLEU, sacreBLEU's   {result['sacrebleu']:.2f}  {result['sacrebleu_signature']}\n"
        f"exact match         {result['exact_match']:.1f}%\n"
        f"decode time         {result['decode_seconds']:.3g} s, median of {result['repeats']} ({spread} s) for "
        f"{result['sentences']:,} sentences\n"
        f"                    {result['sentences_per_second']:,.1f} sentences/s, "
        f"{result['tokens_per_second']:,.0f} tokens/s\n"
        f"                    beam {result['beam_size']}, batch {result['batch_size']}, "
        f"{'XLA' if result['jit_compile'] else 'graph'}, {result['dtype']}, {result['device']}, "
        f"{result['cores']} cores, TensorFlow {result['tensorflow']}\n"
        f"checkpoint          step {result['step']:,}, {result['parameters']:,} parameters"
    )


def _load_config(run_dir: str, overrides: list[str]) -> Config:
    run.load_config(run_dir)
    for override in overrides:
        key = override.partition("=")[0]
        if not key.startswith(("decoding.", "data.folder")):
            raise ConfigError(f"--set {key}: the model is trained; only data.folder and decoding.* may change now")
    return configs.load(os.path.join(run_dir, run.CONFIG), overrides, MECHANISMS)


def _plot(
    model: Seq2Seq, vocabulary: Vocabulary, sources: Sentences, translations: list, plots: int, folder: str
) -> None:
    """Pictures of the alignments of the `plots` longest sources that have a translation."""
    if not plots:
        return
    os.makedirs(folder, exist_ok=True)
    longest_first = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
    for index in [index for index in longest_first if translations[index].best][:plots]:
        source, target = sources[index], vocabulary.encode(translations[index].hypotheses[0])
        combined, slots = model.alignments(tf.constant([source]), tf.constant([target]))
        visualize.alignments(
            os.path.join(folder, f"{index}.png"),
            [vocabulary.tokens[i] for i in source],
            [vocabulary.tokens[i] for i in target],
            combined[0].numpy(),
            slots[0].numpy(),
        )


def _main() -> int:
    options = flags.FLAGS
    output_dir = options.output_dir or options.run_dir
    result = evaluate(
        options.run_dir,
        options.set,
        split=options.split,
        repeats=options.repeats,
        plots=options.plot,
        output_dir=output_dir,
    )
    print(report(result))
    print(f"written to {output_dir}: {RESULT}, {HYPOTHESES}")
    return 0


def main() -> None:
    flags.DEFINE_string("run_dir", None, "Run folder of memattn.train.", required=True)
    flags.DEFINE_multi_string("set", [], "Override, as decoding.beam_size=1; repeatable.")
    flags.DEFINE_string("split", "valid", "Split of the prepared corpus.")
    flags.DEFINE_integer("repeats", 5, "Timed decodings of the split.", lower_bound=1)
    flags.DEFINE_integer("plot", 0, "Draw the alignments of so many sentences, the longest.", lower_bound=0)
    flags.DEFINE_string("output_dir", None, "Where results are written; the run folder by default.")
    cli.run(_main)


if __name__ == "__main__":
    main()
