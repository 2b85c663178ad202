"""Small sequence-to-sequence models, sources for them, training steps, and assertions that hold for every model."""

import functools

import numpy as np
import tensorflow as tf

from helpers.runs import NO_STRATEGY
from memattn.config import DecodingConfig, TrainingConfig
from memattn.data.vocabulary import BOS, EOS, PAD
from memattn.models.seq2seq import Seq2Seq
from memattn.search.searcher import Searcher
from memattn.training.step import TrainingStep, UpdateResult

V, T = 11, 5
SOURCES = [[4, 5, 6, 7, 8, 9, EOS], [10, EOS], [EOS], [5, 5, 3, 5, EOS]]


def make_model(name, options, **switches):
    """A Seq2Seq with this attention mechanism; each call gives the same weights."""
    tf.keras.utils.set_random_seed(7)
    settings = {
        "vocabulary_size": V,
        "max_source_length": 6,
        "layers": 1,
        "units": 8,
        "encoder_units": 4,  # so that luong_dot's widths agree
        "embedding_size": 8,
        "dropout": 0.0,
        "init_scale": 0.8,
        "input_feeding": True,
        "mix": True,
        "bridge": "auto",
        "tie_embeddings": "none",
        **switches,
    }
    return Seq2Seq.from_config({"attention": {"name": name, **options}, **settings})


def padded(rows, width=0):
    """Rows of ids as a batch [B, S], at least `width` wide."""
    batch = np.full((len(rows), max(width, *map(len, rows))), PAD, np.int32)
    for i, row in enumerate(rows):
        batch[i, : len(row)] = row
    return tf.constant(batch)


def steps(model):
    """Returns a function that takes a decoder step for the SOURCES, using only the model's `start` and `step`.

    The function maps the tokens of the previous step, [B], to log-probabilities of the next tokens, [B, V].
    """
    shared, state = model.start(model.encode(padded(SOURCES)), 1, model.token_table())

    def step(tokens):
        nonlocal state
        logits, _, state = model.step(tf.constant(tokens)[:, None], state, shared)
        return tf.nn.log_softmax(logits[:, 0]).numpy()

    return step


@functools.cache
def searcher(model, **options):
    """A searcher, made and traced once for each model and options."""
    options = {"beam_size": 4, "jit_compile": False, "max_length_ratio": 1.5, "length_penalty": 0.7, **options}
    config = DecodingConfig(**{"n_best": options["beam_size"], **options})
    return Searcher(model, config)


def search(model, sources, width=12, **options):
    """For each source, its hypotheses as pairs of tokens and score."""
    return hypotheses_of(searcher(model, **options), sources, width)


def hypotheses_of(searcher, sources, width=12):
    """For each source, the hypotheses that a searcher finds, as pairs of tokens and score."""
    hypotheses = searcher(padded(sources, width).numpy())
    return [
        [(list(tokens[:length]), score) for tokens, length, score in zip(*row, strict=True) if np.isfinite(score)]
        for row in zip(hypotheses.tokens, hypotheses.lengths, hypotheses.scores, strict=True)
    ]


def assert_same_hypotheses(actual, expected):
    """The hypotheses of each source have equal tokens and close scores."""
    for row, expected_row in zip(actual, expected, strict=True):
        assert [tokens for tokens, _ in row] == [tokens for tokens, _ in expected_row]
        scores, expected_scores = ([score for _, score in each] for each in (row, expected_row))
        np.testing.assert_allclose(scores, expected_scores, rtol=1e-4, atol=1e-4)


def arrays(model):
    """The trainable weights of a model, as arrays."""
    return [tf.convert_to_tensor(weight).numpy() for weight in model.trainable_variables]


def assert_close_to_full_precision(model):
    """Logits are close to those of the same weights in float32, under teacher forcing and in decoder steps."""
    full = type(model).from_config({**model.get_config(), "dtype": "float32"})
    full.set_weights(model.get_weights())
    targets = padded([[5, 7, EOS], [6, EOS], [EOS], [9, 3, EOS]]).numpy()  # no longer than their sources
    real, step = targets != PAD, steps(model)
    expected = tf.nn.log_softmax(full(padded(SOURCES), targets)).numpy()[real]
    rounding = {"float16": 1e-3, "bfloat16": 1e-2}[model.compute_dtype]  # relative error
    tolerances = {"rtol": 2 * rounding, "atol": 20 * rounding * expected.std()}
    forced = model(padded(SOURCES), targets)
    assert forced.dtype == model.compute_dtype
    np.testing.assert_allclose(tf.nn.log_softmax(tf.cast(forced, tf.float32)).numpy()[real], expected, **tolerances)
    step_wise = [step(tokens) for tokens in (np.full(len(SOURCES), BOS), *targets.T[:-1])]
    np.testing.assert_allclose(np.stack(step_wise, 1)[real].astype(np.float32), expected, **tolerances)


BATCH = padded([[4, 5, 6, EOS], [7, EOS], [EOS], [8, 9, 10, EOS]]).numpy()
SECOND_BATCH = padded([[5, 5, EOS], [4, 9, 8, 7, EOS], [6, EOS], [10, EOS]]).numpy()


def three_updates(batches, strategy=NO_STRATEGY, **changes):
    """Results of three training steps, each on these batches."""
    config = TrainingConfig(**{"batch_size": 4, "learning_rate": 0.1, "jit_compile": False, **changes})
    with strategy.scope():
        step = TrainingStep(make_model("memory", {"num_slots": 2}, dtype=config.precision), config, strategy)
    pairs = [(batch, batch) for batch in batches]
    return [UpdateResult.read(step(pairs, number, 0.1)) for number in range(3)]
