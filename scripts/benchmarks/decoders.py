"""Decoders of memattn that take turns in one process, and untrained models for them."""

import functools
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import tensorflow as tf

from benchmarks.peers import worker
from memattn.config import Config, DataConfig, DecodingConfig, Seq2SeqConfig, TrainingConfig
from memattn.data.sentences import Sentences, Sources
from memattn.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from memattn.models.seq2seq import Seq2Seq
from memattn.runs.trained import build_model
from memattn.search.searcher import Searcher, decode, warm_up

Decoder = Callable[[], tuple[Any, float]]  # decodes the same sources in each call; the second result is the seconds


def config_of(work: SimpleNamespace) -> Config:
    """Returns the config of the model and the search of a complete work (see `race.complete`)."""
    # A dot product needs states that are as wide as queries; these are the units of each direction.
    encoder_units = work.units // 2 if work.attention["name"] == "luong_dot" else None
    return Config(
        data=DataConfig(folder="none"),
        model=Seq2SeqConfig(
            units=work.units,
            encoder_units=encoder_units,
            embedding_size=work.units,
            dropout=0.0,
            init_scale=0.1,
            attention=work.attention,
            **work.model,
        ),
        training=TrainingConfig(batch_size=work.batch, jit_compile=work.jit_compile),
        decoding=DecodingConfig(
            beam_size=work.beam,
            batch_size=work.batch,
            length_penalty=1.0,
            max_length_ratio=1.0 if work.as_source else 999.0,
            max_length=None if work.as_source else work.length,
            precision=work.precision,
            jit_compile=work.jit_compile,
        ),
    )


def untrained_model(config: Config, vocabulary_size: int, max_source_length: int, *, can_end: bool = False) -> Seq2Seq:
    """Returns a model with initial weights. Unless it `can_end` hypotheses, all get their greatest length."""
    length = {"max_source_length": max_source_length}
    model = cast(Seq2Seq, build_model(config, vocabulary_size, length, config.decoding.precision))
    if can_end:
        return model
    special = len(SPECIAL_TOKENS)
    bias = model.output_bias if model.tied_output else model.output_layer.bias
    bias.assign([worker.NO_END] * special + [0.0] * (vocabulary_size - special))
    return model


def vocabulary_of(work: SimpleNamespace) -> Vocabulary:
    """Returns a vocabulary of as many ids as the work names."""
    return Vocabulary([f"w{i}" for i in range(work.vocabulary - len(SPECIAL_TOKENS))])


def sentences_of(work: SimpleNamespace) -> Sentences:
    """Returns the sources of `worker.sources` as sentences."""
    rows = worker.sources(work)
    return Sentences(np.concatenate(rows).astype(np.int32), np.cumsum([0, *map(len, rows)]))


def use_threads(number: int) -> None:
    """Lets TensorFlow use so many threads, within an operation and across them."""
    tf.config.threading.set_intra_op_parallelism_threads(number)
    tf.config.threading.set_inter_op_parallelism_threads(number)


def decoder(searcher: Searcher, source: Sources, vocabulary: Vocabulary, num_buckets: int) -> Decoder:
    """Returns a function that decodes sources, warmed up."""
    warm_up(searcher, source, num_buckets)
    return functools.partial(decode, searcher, source, vocabulary, num_buckets)


def in_turns(decoders: Mapping[Any, Decoder], repeats: int) -> dict[Any, list[float]]:
    """Calls the decoders in turns, `repeats` times each; returns the seconds of each by its key."""
    seconds: dict[Any, list[float]] = {key: [] for key in decoders}
    for _ in range(repeats):
        for key, decoder in decoders.items():
            seconds[key].append(decoder()[1])
    return seconds
