"""Worker: memattn, with the searcher and the training step of its commands. Exports a model for `ours_onnx.py`, too."""

import memattn.cli  # noqa: F401  isort: skip (sets TensorFlow's logging before it is imported)

import statistics
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf
from benchmarks.decoders import config_of, decoder, sentences_of, untrained_model, use_threads, vocabulary_of
from benchmarks.peers import worker

from memattn import xla
from memattn.data.lexicon import Lexicon
from memattn.data.tokenizer import Tokenizer
from memattn.runs.result import conditions
from memattn.runs.trained import Trained
from memattn.search.searcher import BATCHES_AT_ONCE, Searcher
from memattn.training.step import TrainingStep

work = worker.options()
use_threads(work.threads)
config = config_of(work)
rows = [] if work.task == "train" else worker.sources(work)
longest = max(work.length, *map(len, rows), 1)
model = untrained_model(config, work.vocabulary, longest, can_end=work.task == "train")
versions = {"memattn": conditions()["commit"], "tensorflow": tf.__version__}
compiled = xla.jit_compile(work.jit_compile, model.compute_dtype)
notes = f"{'XLA' if compiled else 'graph'}, batch {work.batch}, {work.precision}, {model.count_params():,} parameters"
vocabulary = vocabulary_of(work)

if work.task == "export":
    from memattn.onnx_export.export import export

    trained_run: Any = SimpleNamespace(vocabulary=vocabulary, tokenizer=Tokenizer(), longest_source=longest)
    export(Trained([trained_run], [model], [], config), work.folder, int8=work.int8)
elif work.task == "decode":
    sentences = sentences_of(work)
    lexicon = None
    if work.selected:  # counts the sources' tokens, which are selected in any case
        symbols = np.random.default_rng(2).permutation(np.arange(worker.FIRST_SYMBOL, work.vocabulary, dtype=np.int32))
        translations = symbols[: work.selected - worker.tokens_of_batch(work)]
        lexicon = Lexicon(np.tile(translations, [work.vocabulary, 1]))
        notes += f", about {work.selected:,} of {work.vocabulary:,} tokens selected"
    searcher = Searcher(model, config.decoding, lexicon)
    buckets = max(config.data.num_buckets, min(16, -(-work.examples // work.batch)))  # different padded lengths
    decode = decoder(searcher, sentences, vocabulary, buckets)

    def decode_all():
        translations, _ = decode()
        lengths = [len(row) if work.as_source else work.length for row in rows]
        if [len(translation.best) for translation in translations] != lengths:
            raise SystemExit("a hypothesis does not have the required length")

    def fold():
        start = time.perf_counter()
        searcher.renew()
        tf.test.experimental.sync_devices()
        return time.perf_counter() - start

    notes += f", up to {BATCHES_AT_ONCE} batches at once"
    worker.serve(versions, notes, decode_all, fold_seconds=statistics.median(fold() for _ in range(5)))
else:
    step = TrainingStep(model, config.training, tf.distribute.get_strategy())
    source, target = (side.astype(np.int32) for side in worker.training_batch(work))

    def update():
        return float(step([(source, target)], 0, 1e-3)[0])

    worker.serve_training(work, versions, notes, update)
