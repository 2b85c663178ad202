"""Checks that the machine has the memory for a training, before it is built; says what takes long."""

import os

import tensorflow as tf

from memattn import resources
from memattn.config import Config, ModelConfig
from memattn.data import corpus, task_corpus
from memattn.data.batches import TrainingBatches

_LINE = 150  # bytes of a line of text in memory beside its tokens: a str and a list
_TOKEN = 14  # bytes of a token: in the file's bytes, its text and its lines, a pointer and the id
_WEIGHT = 16  # bytes of a weight: itself, its gradient and Adam's two moments, in float32
_LAYER = 10_000_000  # bytes of the graphs of a layer; 30 MB were measured
_MANY_LAYERS = 20
# Bytes that backpropagation keeps for each position of a layer, in both directions and in the decoder, and further ones
# for each unit and sentence there. On CPUs, 20,000 and 205 were measured for LSTMs in float32.
_POSITION, _UNIT = 16_000, 160


def check_task(config: Config) -> None:
    """Raises ConfigError if the task's corpus does not fit into memory, which training reads it into."""
    task = config.data.generated
    tokens, _ = task_corpus.least_size(task)
    pairs = task.train_examples + task.valid_examples
    key = "data.task" if config.data.task else "data.copy"
    resources.check(pairs * _LINE + tokens * _TOKEN, key, f"a corpus of {pairs:,} pairs of up to {task.max_length:,}")


def check_text(folder: str) -> None:
    """Raises ConfigError if the training text of a folder does not fit into memory."""
    path = os.path.join(folder, "train.source")
    if os.path.isfile(path) and not os.path.exists(corpus.binary_paths(folder, "train", "source")["ids"]):
        right = "memattn-prepare writes a corpus that stays on disk"
        resources.check(3 * os.path.getsize(path), "data.folder", f"the text of {path} ({right})")


def check_model(model: ModelConfig, vocabulary_size: int) -> list[str]:
    """Lines on what takes long. Raises ConfigError for a model that cannot be trained here."""
    parameters = least_parameters(model, vocabulary_size)
    if not tf.config.list_physical_devices("GPU"):
        resources.check(parameters * _WEIGHT, "model", f"training {parameters:,} parameters or more")
    resources.check(model.layers * _LAYER, "model.layers", f"the graph of {model.layers:,} layers")
    if model.layers < _MANY_LAYERS:
        return []
    return [f"the first step with each padded length takes minutes, as the model has {model.layers:,} layers"]


def least_parameters(model: ModelConfig, vocabulary_size: int) -> int:
    """A lower bound of the parameters of a model of any kind."""
    units, encoder = model.units, model.encoder_units or model.units
    if model.kind != "seq2seq":
        return vocabulary_size * units + model.layers * units**2
    slots = model.attention.get("num_slots") or 0
    width = model.attention.get("projection") or 0
    sizes = [
        vocabulary_size * model.embedding_size,
        vocabulary_size * (units // 2),
        model.layers * 3 * (units**2 + 2 * encoder**2),
        (slots if isinstance(slots, int) else 0) * 2 * encoder,
        (width if isinstance(width, int) else 0) * units,
    ]
    return sum(sizes)


def check_batches(config: Config, batches: TrainingBatches, vocabulary_size: int, replicas: int) -> list[str]:
    """Lines on what takes long. Raises ConfigError for batches that do not fit into memory."""
    model, training = config.model, config.training
    rows, width = batches.largest
    pairs = training.accumulate * rows
    key = "training.batch_size" if training.accumulate == 1 else "training.accumulate"
    resources.check(8 * pairs * width, key, f"an update of {pairs:,} pairs with {width:,} tokens on a side")
    lines = []
    if pairs > batches.pairs:
        lines.append(f"an update reads {pairs:,} pairs, {pairs / batches.pairs:.3g} times the corpus")
    if model.kind == "seq2seq" and not tf.config.list_physical_devices("GPU"):
        lstms = model.encoder == "lstm" and model.decoder == "lstm" and model.input_feeding
        share = (1.0 if lstms else 0.5) * (1.0 if training.precision == "float32" else 0.5)
        rows = -(-rows // replicas)
        kept = share * width * (model.layers * (_POSITION + _UNIT * rows * model.units) + 4 * rows * vocabulary_size)
        resources.check(kept, "training.batch_size", f"a step on {rows:,} pairs with {width:,} tokens on a side")
        if kept > resources.total_memory() / 4:
            lines.append(f"a step takes about {resources.readable(kept)} of memory")
    return lines
