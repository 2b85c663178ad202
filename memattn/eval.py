"""Evaluates a trained run: hypotheses, BLEU, decode time, pictures of alignments.

python -m memattn.eval --run_dir runs/small
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import dataclasses
import glob
import json
import os
import re
import statistics
from typing import Any

import numpy as np
import tensorflow as tf
from absl import flags
from tqdm import tqdm

from memattn import config as configs
from memattn import corpus, decoding, files, metrics, run, text, visualize
from memattn.corpus import Sentences
from memattn.errors import ConfigError, DataError
from memattn.model import Seq2Seq
from memattn.trained import Trained, load
from memattn.vocab import Vocabulary

RESULT, HYPOTHESES, REFERENCES, N_BEST = "result.json", "hypotheses.txt", "references.txt", "n_best.tsv"
ALIGNMENTS = "alignments"


@dataclasses.dataclass(frozen=True)
class TestSet:
    """What is decoded and compared.

    Attributes:
      name: of the split, or the source file's.
      source: sentences of ids.
      references: words divided by spaces, BPE undone.
      written: the references as people write them.
    """

    name: str
    source: Sentences
    references: list[str]
    written: list[str]


def read_split(trained: Trained, split: str) -> TestSet:
    """A split of the prepared corpus. Raises ConfigError for no such split or not the run's corpus, DataError."""
    folder = trained.config.data.path
    corpus.check_folder(folder)
    vocabulary = corpus.read_vocabulary(os.path.join(folder, corpus.VOCABULARY))
    if (vocabulary.tokens, text.read(folder).files()) != (trained.vocabulary.tokens, trained.text.files()):
        raise ConfigError(f"data.folder: {folder} has another vocabulary or other BPE than the run; see --source")
    corpus.check_split(folder, split, corpus.splits(folder))
    sentences = corpus.read_corpus(folder, split, trained.vocabulary).source
    tokens, written = corpus.read_references(folder, split)
    return TestSet(split, sentences, [trained.text.decode(line.split()) for line in tokens], written)


def read_files(trained: Trained, source: str, target: str) -> TestSet:
    """Two files of text (plain or .gz), which go the way that the training text went. Raises DataError."""
    sources, targets = corpus.read_lines(source), corpus.read_lines(target)
    if len(sources) != len(targets):
        raise DataError(f"{source} has {len(sources):,} lines and {target} has {len(targets):,}")
    if not sources:
        raise DataError(f"{source}: empty; there is nothing to decode")
    spoken, encode = trained.text, trained.vocabulary.encode
    sentences = corpus.from_ids([encode(spoken.encode(line, "source")) for line in sources])
    words = [spoken.decode(spoken.encode(line, "target")) for line in targets]
    return TestSet(source, sentences, words, [spoken.reference(line) for line in targets])


def evaluate(trained: Trained, test_set: TestSet, *, repeats: int, plots: int, output_dir: str) -> dict[str, Any]:
    """Decodes a test set, writes what came out and returns the result. Raises ConfigError, DataError, OSError."""
    config, vocabulary = trained.config, trained.vocabulary
    searcher = decoding.Searcher(trained.model, config.decoding)
    decoding.warm_up(searcher, test_set.source, config.data.num_buckets)
    seconds = []
    sentences = len(test_set.source)
    for _ in tqdm(range(repeats), desc=f"decoding {sentences:,} sentences", unit="run", disable=None):
        translations, elapsed = decoding.decode(searcher, test_set.source, vocabulary, config.data.num_buckets)
        seconds.append(elapsed)
    hypotheses = [trained.text.decode(translation.best) for translation in translations]
    written = [trained.text.detokenize(hypothesis) for hypothesis in hypotheses]
    scores = metrics.score(hypotheses, test_set.references, (written, test_set.written))
    tokens = sum(len(translation.best) + 1 for translation in translations)
    median = statistics.median(seconds)
    result = {
        **scores._asdict(),
        "decode_seconds": median,
        "decode_seconds_min": min(seconds),
        "decode_seconds_max": max(seconds),
        "repeats": repeats,
        "sentences_per_second": sentences / median,
        "tokens_per_second": tokens / median,
        "excluded_from_time": "model construction, tracing and compiling, data loading, batching, ids to text",
        "sentences": sentences,
        "split": test_set.name,
        "beam_size": config.decoding.beam_size,
        "batch_size": config.decoding.batch_size,
        "jit_compile": run.jit_compile(config.decoding.jit_compile),
        "dtype": config.training.precision,
        "seed": config.training.seed,
        "parameters": sum(model.count_params() for model in trained.models),
        "step": max(int(path.rpartition("-")[2]) for path in trained.checkpoints),
        "checkpoints": trained.checkpoints,
        **run.conditions(),
        "config": configs.to_dict(config),
    }
    os.makedirs(output_dir, exist_ok=True)
    texts = {HYPOTHESES: hypotheses, REFERENCES: test_set.references}
    if (written, test_set.written) != (hypotheses, test_set.references):
        texts |= {"hypotheses.detokenized.txt": written, "references.detokenized.txt": test_set.written}
    for name, lines in texts.items():
        files.write(os.path.join(output_dir, name), "".join(f"{line}\n" for line in lines))
    n_best = os.path.join(output_dir, N_BEST)
    if os.path.exists(n_best):
        os.remove(n_best)  # of an evaluation before
    if config.decoding.n_best > 1:
        lines = [
            f"{i}\t{score:.6f}\t{trained.text.decode(tokens)}\n"
            for i, translation in enumerate(translations)
            for tokens, score in zip(translation.hypotheses, translation.scores, strict=True)
        ]
        files.write(n_best, "".join(lines))
    files.write(os.path.join(output_dir, RESULT), json.dumps(result, indent=2) + "\n")
    _plot(trained.models[0], vocabulary, test_set.source, translations, plots, os.path.join(output_dir, ALIGNMENTS))
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


def _plot(
    model: Seq2Seq, vocabulary: Vocabulary, sources: Sentences, translations: list, plots: int, folder: str
) -> None:
    """Pictures of the alignments of the `plots` longest sources that have a translation, and no others."""
    for path in glob.glob(os.path.join(glob.escape(folder), "*.png")):
        if re.fullmatch(r"\d+\.png", os.path.basename(path)):
            os.remove(path)  # of an evaluation before
    if not plots:
        return
    os.makedirs(folder, exist_ok=True)
    longest_first = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
    for index in [index for index in longest_first if translations[index].best][:plots]:
        drawn = aligned(model, vocabulary, sources[index], translations[index].best)
        visualize.alignments(os.path.join(folder, f"{index}.png"), *drawn)


def aligned(
    model: Seq2Seq, vocabulary: Vocabulary, source: np.ndarray, hypothesis: list[str]
) -> tuple[list[str], list[str], np.ndarray, np.ndarray]:
    """What `visualize.alignments` draws of source ids [S] and a hypothesis: both as tokens, and the weights."""
    target = vocabulary.encode(hypothesis)
    combined, slots = model.alignments(tf.constant([source]), tf.constant([target]))
    tokens = [[vocabulary.tokens[i] for i in ids] for ids in (source, target)]
    return *tokens, combined[0].numpy(), slots[0].numpy()


def _main() -> int:
    options = flags.FLAGS
    if (options.source is None) != (options.target is None) or (options.source is not None and options.split):
        raise ConfigError("--source and --target: give both files, or a --split")
    if len(options.run_dir) > 1 and not options.output_dir:
        raise ConfigError("--output_dir: name a folder for what the ensemble writes")
    trained = load(options.run_dir, options.set, options.average)
    if options.source is not None:
        test_set = read_files(trained, options.source, options.target)
    else:
        test_set = read_split(trained, options.split or "valid")
    output_dir = options.output_dir or options.run_dir[0]
    result = evaluate(trained, test_set, repeats=options.repeats, plots=options.plot, output_dir=output_dir)
    print(report(result))
    lists = [N_BEST] * (trained.config.decoding.n_best > 1) + [f"{ALIGNMENTS}/ (by line, from 0)"] * bool(options.plot)
    print(f"written to {output_dir}: {', '.join([RESULT, HYPOTHESES, REFERENCES, *lists])}")
    return 0


def main() -> None:
    flags.DEFINE_multi_string("run_dir", None, "Run folder of memattn.train; several make an ensemble.", required=True)
    flags.DEFINE_multi_string("set", [], "Override, as decoding.beam_size=1; repeatable.")
    flags.DEFINE_string("split", None, "Split of the prepared corpus; valid by default.")
    flags.DEFINE_string("source", None, "In place of a split: a file of sources, as the training text was.")
    flags.DEFINE_string("target", None, "And the file of their references.")
    flags.DEFINE_integer("average", None, "Average the last so many checkpoints; else the best one.", lower_bound=1)
    flags.DEFINE_integer("repeats", 5, "Timed decodings of the split.", lower_bound=1)
    flags.DEFINE_integer("plot", 0, "Draw the alignments of so many sentences, the longest.", lower_bound=0)
    flags.DEFINE_string("output_dir", None, "Where results are written; the run folder by default.")
    cli.run(_main)


if __name__ == "__main__":
    main()
