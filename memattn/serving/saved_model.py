"""Exports a trained model with its search as TensorFlow's SavedModel, which runs without memattn, and loads it."""

import contextlib
import dataclasses
import functools
import json
import os
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from memattn import config as configs
from memattn import files, reading, xla
from memattn.config import DecodingConfig, schema
from memattn.data import tokenizer as tokenizers
from memattn.data.corpus import VOCABULARY, read_vocabulary
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import EOS, PAD, UNK, Vocabulary
from memattn.errors import ConfigError, DataError, RunError, reason
from memattn.models.interface import aligns
from memattn.runs import checkpoints, provenance
from memattn.runs.checkpoints import tensorflow_variable
from memattn.runs.trained import Trained
from memattn.search.beam_search import Hypotheses
from memattn.search.searcher import Searcher

EXTRA, FACTS = "assets.extra", "export.json"
_FACTS_TYPES = {"sha256": dict, "config": dict, "has_alignments": bool, "max_source_length": int}
_NO_TOKEN = ""  # pads tensors of tokens
NOT_EXPORTED = {"lexicon": "vocabulary selection", "sample": "sampling"}  # keys of `decoding`: an export has neither


def export(trained: Trained, folder: str, max_source_length: int | None = None) -> int:
    """Writes a SavedModel, which appears under its name when it is complete.

    Args:
      trained: the trained model.
      folder: the folder of the SavedModel, which must not exist.
      max_source_length: most tokens of a source; by default `decoding.max_source_length` or, without it, twice as many
        as the longest training source has.

    Returns the most tokens of a source. Raises ConfigError, OSError.
    """
    trained.check_reads_text("memattn-export")
    for key, option in NOT_EXPORTED.items():
        if getattr(trained.config.decoding, key):
            raise ConfigError(f"decoding.{key}: {option} is not exported; --set decoding.{key}=null")
    if trained.config.model.has_memory_length and not trained.config.decoding.memory_ratio:
        raise ConfigError("decoding.memory_ratio: an exported model needs one; --set decoding.memory_ratio=1.2, say")
    folder = os.path.normpath(folder)
    checkpoints.check_path(folder)
    if os.path.exists(folder):
        raise ConfigError(f"{folder}: exists; use another --output")
    files.make_folder(os.path.dirname(folder))
    longest = max_source_length or trained.max_source_length
    unfinished = files.unfinished_path(folder)
    try:
        with files.naming(unfinished), xla.portable():
            module = _Module(trained, longest)
            tf.saved_model.save(module, unfinished, module.signatures())
        _write_extra(trained, longest, os.path.join(unfinished, EXTRA))
        files.move(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return longest


def _padded_widths(longest: int) -> list[int]:
    """Returns 8, 12, 16, 24, 32, 48 and so on, up to the first width of at least `longest`."""
    widths = [8]
    while widths[-1] < longest:
        widths.append(widths[-1] * 3 // 2 if len(widths) % 2 else widths[-1] * 4 // 3)
    return widths


def _write_extra(trained: Trained, longest: int, folder: str) -> None:
    """Writes the files beside the model that `load` needs: vocabulary, tokenizer, facts."""
    os.makedirs(folder)
    texts = {VOCABULARY: str(trained.vocabulary), **trained.tokenizer.files()}
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
    """The functions of a SavedModel. There is a graph for each padded width; the batch size is free."""

    def __init__(self, trained: Trained, longest: int):
        super().__init__()
        self._searcher = Searcher(trained.model, trained.config.decoding)
        self._longest, self._widths = longest, _padded_widths(longest + 1)
        self._model = trained.model
        # TensorFlow saves the variables that it finds in attributes.
        self.weights = [tensorflow_variable(weight) for model in trained.models for weight in model.weights]
        self.token_table = [
            tf.Variable(tensor, trainable=False) for tensor in tf.nest.flatten(self._searcher.token_table)
        ]
        ids = trained.vocabulary.ids
        table = tf.lookup.KeyValueTensorInitializer(list(ids), tf.constant(list(ids.values()), tf.int32))
        self.ids_of = tf.lookup.StaticHashTable(table, UNK)
        self._tokens = tf.constant(trained.vocabulary.tokens)

    def signatures(self) -> dict[str, Any]:
        """Returns the functions by name.

        Tokens are padded with empty strings, ids with PAD after the end of sentence.
        """
        tokens, ids = (tf.TensorSpec([None, None], dtype, "source") for dtype in (tf.string, tf.int32))
        methods: dict[str, tuple[Callable[..., dict[str, tf.Tensor]], list[tf.TensorSpec]]] = {
            "serving_default": (self._translate, [tokens]),
            "search": (self._search, [ids]),
        }
        if self._searcher.has_alignments:
            target = tf.TensorSpec([None, None], tf.int32, "target")
            methods["translate_and_align"] = (self._translate_and_align, [tokens])
            methods["align"] = (self._align, [ids, target])
        return {name: tf.function(method, specs, autograph=False) for name, (method, specs) in methods.items()}

    def _search(self, source: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns hypotheses of source ids [B, S]."""
        present = _leading(tf.not_equal(source, PAD))
        lengths = tf.reduce_sum(tf.cast(present, tf.int32), 1) - 1  # without the end of sentence
        check = tf.debugging.assert_less_equal(lengths, self._longest, f"a source has more than {self._longest} tokens")
        source = tf.where(present, source, PAD)[:, : self._widths[-1]]
        source_width = tf.shape(source)[1]
        token_table = tf.nest.pack_sequence_as(
            self._searcher.token_table, [tf.convert_to_tensor(variable) for variable in self.token_table]
        )

        def search_padded(width: int) -> tuple[tf.Tensor, ...]:
            padded = tf.pad(source, [[0, 0], [0, width - source_width]], constant_values=PAD)
            return tuple(self._searcher.search(tf.ensure_shape(padded, [None, width]), token_table))

        with tf.control_dependencies([check]):
            index = tf.reduce_sum(tf.cast(source_width > self._widths, tf.int32))  # place of the least sufficient width
            results = tf.switch_case(index, [functools.partial(search_padded, width) for width in self._widths])
        return Hypotheses(*results)._asdict()

    def _align(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns weights of source positions [B, T, S] at each step of target ids [B, T], for source ids [B, S]."""
        if not aligns(self._model):
            raise TypeError("the model weighs no source positions")
        return {"alignments": self._model.alignments(source, target)}

    def _translate(self, source: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns hypotheses of source tokens [B, S], as tokens."""
        hypotheses = self._search(self._ids(source))
        return {**hypotheses, "tokens": self._words(hypotheses)}

    def _translate_and_align(self, source: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns hypotheses of source tokens [B, S], as tokens, and their attention weights [B, n, L, S + 1].

        The last position of a source is its end of sentence.
        """
        ids = self._ids(source)
        hypotheses = self._search(ids)
        batch, n_best, steps = tf.unstack(tf.shape(hypotheses["tokens"]))
        targets = tf.reshape(hypotheses["tokens"], [batch * n_best, steps])
        weights = self._align(tf.repeat(ids, n_best, 0), targets)["alignments"]
        weights = tf.reshape(weights, [batch, n_best, steps, tf.shape(ids)[1]])
        return {**hypotheses, "tokens": self._words(hypotheses), "alignments": weights}

    def _ids(self, source: tf.Tensor) -> tf.Tensor:
        """Returns ids [B, S + 1] of tokens [B, S], with the end of sentence."""
        present = _leading(tf.not_equal(source, _NO_TOKEN))
        ids = tf.pad(tf.where(present, self.ids_of.lookup(source), PAD), [[0, 0], [0, 1]], constant_values=PAD)
        lengths = tf.reduce_sum(tf.cast(present, tf.int32), 1)
        return tf.where(tf.range(tf.shape(ids)[1]) == lengths[:, None], EOS, ids)

    def _words(self, hypotheses: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns the tokens [B, n, L] of hypotheses."""
        within = tf.range(tf.shape(hypotheses["tokens"])[2]) < hypotheses["lengths"][:, :, None]
        return tf.where(within, tf.gather(self._tokens, hypotheses["tokens"]), _NO_TOKEN)


def _leading(present: tf.Tensor) -> tf.Tensor:
    """Returns bool [B, S]: true before the first position of each row at which `present` [B, S] is false."""
    return tf.cast(tf.math.cumprod(tf.cast(present, tf.int32), 1), tf.bool)


class SavedSearcher:
    """The search of a SavedModel, in place of a `Searcher`.

    Args:
      model: the model as TensorFlow loads it.
      facts: content of the export's file FACTS.
      config: config of the search; its `n_best` is at most that of the export.

    Attributes:
      config: the config.
      has_alignments: whether the model weighs source positions.
      max_source_length: most tokens of a source.
    """

    def __init__(self, model: Any, facts: dict, config: DecodingConfig):
        self._model, self.config, self.has_alignments = model, config, facts["has_alignments"]
        longest = facts["max_source_length"]
        self.max_source_length: int = min(longest, config.max_source_length or longest)

    def __call__(self, source: np.ndarray, numbers: np.ndarray | None = None) -> Hypotheses:
        """Returns the n best hypotheses of source ids [B, S]."""
        del numbers
        results = self._run("search", source=source)
        return Hypotheses(**{name: values[:, : self.config.n_best] for name, values in results.items()})

    def align(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Returns weights of source positions [B, T, S] at each step of target ids [B, T], for source ids [B, S]."""
        return self._run("align", source=source, target=target)["alignments"]

    def _run(self, signature: str, **arguments: np.ndarray) -> dict[str, np.ndarray]:
        tensors = {name: tf.constant(ids, tf.int32) for name, ids in arguments.items()}
        return {name: tensor.numpy() for name, tensor in self._model.signatures[signature](**tensors).items()}


def load(folder: str, n_best: int | None = None) -> tuple[SavedSearcher, Tokenizer, Vocabulary]:
    """Loads what `export` wrote.

    Args:
      folder: the folder of the SavedModel.
      n_best: number of hypotheses, by default as many as were exported.

    Returns the search, the tokenizer and the vocabulary. Raises ConfigError, RunError, DataError.
    """
    if not os.path.isdir(folder):
        raise ConfigError(f"{folder}: not a folder; give the --output of memattn-export")
    checkpoints.check_path(folder)
    extra = os.path.join(folder, EXTRA)
    facts = _read_facts(folder, extra)
    # Of the config, only this section counts: the model's own may name a mechanism that this machine lacks.
    config = schema.build(DecodingConfig, facts["config"].get("decoding"), "decoding", configs.Origin(folder))
    if n_best and n_best > config.n_best:
        advice = f"export it again with --set decoding.n_best={n_best}"
        raise ConfigError(f"--nbest: {n_best} is more than the export's decoding.n_best = {config.n_best}; {advice}")
    config = dataclasses.replace(config, n_best=n_best or config.n_best)
    try:
        with contextlib.suppress(FileNotFoundError):  # raises if damaged, which `load` would only log
            tf.saved_model.experimental.read_fingerprint(folder)
        model = tf.saved_model.load(folder)
    except Exception as error:  # TensorFlow raises errors of any type for a truncated file
        raise RunError(f"{folder}: damaged; export it again: {reason(error)}") from error
    vocabulary = read_vocabulary(os.path.join(extra, VOCABULARY))
    return SavedSearcher(model, facts, config), tokenizers.read(extra), vocabulary


def _read_facts(folder: str, extra: str) -> dict[str, Any]:
    """Reads the facts of an export, and checks the files beside them. Raises RunError."""
    path = os.path.join(extra, FACTS)
    try:
        facts = reading.json_file(path, _FACTS_TYPES)
    except (OSError, DataError) as error:
        raise RunError(f"{path}: unreadable; {folder} is no export of memattn, or damaged") from error
    for name, expected in facts["sha256"].items():
        with contextlib.suppress(OSError):
            if files.checksum(os.path.join(extra, name)) == expected:
                continue
        raise RunError(f"{os.path.join(extra, name)}: missing, or not the file of the export; export it again")
    return facts
