"""A trained model with its search as TensorFlow's SavedModel, which runs without memattn: written, and read."""

import contextlib
import dataclasses
import functools
import json
import math
import os
import secrets
import shutil
from typing import Any

import numpy as np
import tensorflow as tf

from memattn import config as configs
from memattn import files, reading
from memattn.config import DecodingConfig
from memattn.data import corpus
from memattn.data import tokenizer as text
from memattn.data.corpus import VOCABULARY
from memattn.data.tokenizer import Text, Tokens
from memattn.data.vocabulary import EOS, PAD, UNK, Vocabulary
from memattn.errors import ConfigError, DataError, RunError, reason
from memattn.runs import checkpoints, provenance
from memattn.runs.checkpoints import tensorflow_variable
from memattn.runs.trained import Trained
from memattn.search.beam_search import Hypotheses
from memattn.search.searcher import Searcher

EXTRA, FACTS = "assets.extra", "export.json"
_KINDS = {"sha256": dict, "config": dict, "has_alignments": bool, "max_source_length": int}
_NO_TOKEN = ""  # pads tensors of tokens


def export(trained: Trained, folder: str, max_source_length: int | None = None) -> int:
    """Writes a SavedModel, which appears under its name once it is whole; returns the longest source that it takes.

    It takes sources of `max_source_length` tokens, by default those of `decoding.max_source_length`, or twice as many
    as training's longest source has. Raises ConfigError, OSError.
    """
    for key, what in {"lexicon": "vocabulary selection", "sample": "sampling"}.items():
        if getattr(trained.config.decoding, key):
            raise ConfigError(f"decoding.{key}: {what} is not exported; --set decoding.{key}=null")
    if trained.config.model.has_memory_length and not trained.config.decoding.memory_ratio:
        raise ConfigError("decoding.memory_ratio: an exported model needs one; --set decoding.memory_ratio=1.2, say")
    folder = os.path.normpath(folder)
    if os.path.exists(folder):
        raise ConfigError(f"{folder}: exists; use another --output")
    os.makedirs(os.path.dirname(folder) or ".", exist_ok=True)
    longest = max_source_length or trained.max_source_length
    module = _Module(trained, longest)
    unfinished = f"{folder}.{secrets.token_hex(4)}{files.UNFINISHED}"
    try:
        with files.naming(unfinished):
            tf.saved_model.save(module, unfinished, module.functions())
        _write_extra(trained, longest, os.path.join(unfinished, EXTRA))
        files.move(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return longest


def _widths(longest: int) -> list[int]:
    """8, 12, 16, 24, 32, 48 and so on, up to the first that is not below `longest`."""
    widths = [8]
    while widths[-1] < longest:
        widths.append(widths[-1] * 3 // 2 if len(widths) % 2 else widths[-1] * 4 // 3)
    return widths


def _write_extra(trained: Trained, longest: int, folder: str) -> None:
    """The files beside the model, from which `load` restores what it needs: vocabulary, text settings, facts."""
    os.makedirs(folder)
    texts = {VOCABULARY: str(trained.vocabulary), **trained.text.files()}
    for name, content in texts.items():
        files.write(os.path.join(folder, name), content)
    facts = {
        "max_source_length": longest,
        "has_alignments": trained.model.has_alignments,
        "checkpoints": trained.checkpoints,
        **provenance.conditions(),
        "config": configs.to_dict(trained.config),
        "sha256": {name: files.checksum(os.path.join(folder, name)) for name in texts},
    }
    files.write(os.path.join(folder, FACTS), json.dumps(facts, indent=2) + "\n")


class _Module(tf.Module):
    """The functions of a SavedModel. Each padded width has a graph, in which it is static; the batch size is free."""

    def __init__(self, trained: Trained, longest: int):
        super().__init__()
        self._searcher = Searcher(trained.model, trained.config.decoding)
        self._longest, self._widths = longest, _widths(longest + 1)
        self._model = trained.model
        self.weights = [tensorflow_variable(weight) for model in trained.models for weight in model.weights]
        self.token_table = [
            tf.Variable(gates, trainable=False) for gates in tf.nest.flatten(self._searcher.token_table)
        ]
        ids = trained.vocabulary.ids
        table = tf.lookup.KeyValueTensorInitializer(list(ids), tf.constant(list(ids.values()), tf.int32))
        self.ids_of = tf.lookup.StaticHashTable(table, UNK)
        self._tokens = tf.constant(trained.vocabulary.tokens)

    def functions(self) -> dict[str, Any]:
        """The signatures. Tokens are padded with empty strings, ids with PAD after the end of sentence."""
        ids, tokens = (tf.TensorSpec([None, None], kind, "source") for kind in (tf.int32, tf.string))
        found = {"serving_default": (self._translate, [tokens]), "search": (self._search, [ids])}
        if self._searcher.has_alignments:
            target = tf.TensorSpec([None, None], tf.int32, "target")
            found |= {
                "translate_and_align": (self._translate_and_align, [tokens]),
                "align": (self._align, [ids, target]),
            }
        return {name: tf.function(method, specs, autograph=False) for name, (method, specs) in found.items()}

    def _search(self, source: tf.Tensor) -> dict[str, tf.Tensor]:
        """Hypotheses of source ids [B, S]."""
        present = _first(tf.not_equal(source, PAD))
        lengths = tf.reduce_sum(tf.cast(present, tf.int32), 1) - 1  # without the end of sentence
        check = tf.debugging.assert_less_equal(lengths, self._longest, f"a source has more than {self._longest} tokens")
        source = tf.where(present, source, PAD)[:, : self._widths[-1]]
        width = tf.shape(source)[1]
        token_table = tf.nest.pack_sequence_as(
            self._searcher.token_table, [tf.convert_to_tensor(gates) for gates in self.token_table]
        )

        def at(own):
            padded = tf.pad(source, [[0, 0], [0, own - width]], constant_values=PAD)
            return tuple(self._searcher.search(tf.ensure_shape(padded, [None, own]), token_table))

        with tf.control_dependencies([check]):
            place = tf.reduce_sum(tf.cast(width > self._widths, tf.int32))  # of the first that holds the source
            found = tf.switch_case(place, [functools.partial(at, own) for own in self._widths])
        return Hypotheses(*found)._asdict()

    def _align(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        """Weights of source positions [B, T, S] at each step of target ids [B, T], for source ids [B, S]."""
        return {"alignments": self._model.alignments(source, target)[0]}

    def _translate(self, source: tf.Tensor) -> dict[str, tf.Tensor]:
        """Hypotheses of source tokens [B, S]."""
        found = self._search(self._ids(source))
        return {**found, "tokens": self._in_words(found)}

    def _translate_and_align(self, source: tf.Tensor) -> dict[str, tf.Tensor]:
        """The same with the weights of source positions [B, n, L, S + 1], the last one the end of sentence."""
        ids = self._ids(source)
        found = self._search(ids)
        batch, samples, steps = tf.unstack(tf.shape(found["tokens"]))
        targets = tf.reshape(found["tokens"], [batch * samples, steps])
        weights = self._align(tf.repeat(ids, samples, 0), targets)["alignments"]
        weights = tf.reshape(weights, [batch, samples, steps, tf.shape(ids)[1]])
        return {**found, "tokens": self._in_words(found), "alignments": weights}

    def _ids(self, source: tf.Tensor) -> tf.Tensor:
        """Ids [B, S + 1] of tokens [B, S], with the end of sentence."""
        present = _first(tf.not_equal(source, _NO_TOKEN))
        ids = tf.pad(tf.where(present, self.ids_of.lookup(source), PAD), [[0, 0], [0, 1]], constant_values=PAD)
        lengths = tf.reduce_sum(tf.cast(present, tf.int32), 1)
        return tf.where(tf.range(tf.shape(ids)[1]) == lengths[:, None], EOS, ids)

    def _in_words(self, found: dict[str, tf.Tensor]) -> tf.Tensor:
        within = tf.range(tf.shape(found["tokens"])[2]) < found["lengths"][:, :, None]
        return tf.where(within, tf.gather(self._tokens, found["tokens"]), _NO_TOKEN)


def _first(present: tf.Tensor) -> tf.Tensor:
    """True [B, S] up to the first position of each row that is not `present`."""
    return tf.cast(tf.math.cumprod(tf.cast(present, tf.int32), 1), tf.bool)


class SavedSearcher:
    """Replaces `Searcher` for a SavedModel.

    Args:
      model: as TensorFlow loads it.
      facts: of its file FACTS.
      config: of its search; it may return fewer hypotheses than were exported.

    Attributes:
      config: the same.
      max_source_length: tokens of a source, at most.
    """

    def __init__(self, model: Any, facts: dict, config: DecodingConfig):
        self._model, self.config, self.has_alignments = model, config, facts["has_alignments"]
        self.max_source_length = min(facts["max_source_length"], config.max_source_length or math.inf)

    def __call__(self, source: np.ndarray, numbers: Any = None) -> Hypotheses:
        """The n best hypotheses of source ids [B, S]."""
        del numbers
        found = self._run("search", source=source)
        return Hypotheses(**{name: values[:, : self.config.n_best] for name, values in found.items()})

    def align(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Weights of source positions [B, T, S] at each step of target ids [B, T], for source ids [B, S]."""
        return self._run("align", source=source, target=target)["alignments"]

    def _run(self, signature: str, **ids: np.ndarray) -> dict[str, np.ndarray]:
        results = self._model.signatures[signature](**{name: tf.constant(one, tf.int32) for name, one in ids.items()})
        return {name: tensor.numpy() for name, tensor in results.items()}


def load(folder: str, n_best: int | None = None) -> tuple[SavedSearcher, Text | Tokens, Vocabulary]:
    """What `export` wrote: the search, text settings and vocabulary. Raises ConfigError, RunError, DataError."""
    extra = os.path.join(folder, EXTRA)
    path = os.path.join(extra, FACTS)
    if not os.path.isdir(folder):
        raise ConfigError(f"{folder}: not a folder; give the --output of memattn-export")
    try:
        facts = reading.json_file(path, _KINDS)
    except (OSError, DataError) as error:
        raise RunError(f"{path}: unreadable; {folder} is no export of memattn, or damaged") from error
    for name, expected in facts["sha256"].items():
        with contextlib.suppress(OSError):
            if files.checksum(os.path.join(extra, name)) == expected:
                continue
        raise RunError(f"{os.path.join(extra, name)}: missing, or not the file of the export; export it again")
    config = configs.from_dict(facts["config"]).decoding
    if n_best and n_best > config.n_best:
        again = f"export it again with --set decoding.n_best={n_best}"
        raise ConfigError(f"--nbest: {n_best} is more than the export's decoding.n_best = {config.n_best}; {again}")
    config = dataclasses.replace(config, n_best=n_best or config.n_best)
    try:
        with checkpoints.plain_path(folder) as plain:
            with contextlib.suppress(FileNotFoundError):
                tf.saved_model.experimental.read_fingerprint(plain)  # `load` goes on without it, and logs a stack trace
            model = tf.saved_model.load(plain)
    except Exception as error:  # TensorFlow raises errors of any type for a truncated file
        raise RunError(f"{folder}: damaged; export it again: {reason(error)}") from error
    vocabulary = corpus.read_vocabulary(os.path.join(extra, VOCABULARY))
    return SavedSearcher(model, facts, config), text.read(extra), vocabulary
