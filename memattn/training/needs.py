"""Checks that the machine has enough memory for a training, and announces steps that take long."""

import os

from memattn import resources, xla
from memattn.config import Config, ModelConfig, NeuralGPUConfig, Seq2SeqConfig, TrainingConfig
from memattn.data import corpus, task_corpus
from memattn.data.batches import TrainingBatches

# Lower bounds on bytes of memory.
_LINE_BYTES = 150  # for a line of text beside its tokens: a str and a list
_TOKEN_BYTES = 14  # for a token: in the file's bytes, in the text and in its line, with a pointer and the id
_WEIGHT_BYTES = 16  # for a weight: its value, its gradient and Adam's two moments, in float32
_LAYER_BYTES = 10_000_000  # for a layer's graphs; 30 MB were measured
# For backpropagation through a layer of encoder and decoder: at each position, and for each unit and sentence there.
# On CPUs, 20,000 and 205 were measured for LSTMs in float32.
_POSITION_BYTES, _UNIT_BYTES = 16_000, 160

_MANY_LAYERS = 20  # from so many on, compiling takes minutes


def check_task(config: Config) -> None:
    """Raises ConfigError if the corpus of a task, all of which training reads, does not fit into memory."""
    task = config.data.generated
    if task is None:
        return
    tokens, _ = task_corpus.expected_size(task)
    pairs = task.train_examples + task.valid_examples
    needed = pairs * _LINE_BYTES + tokens * _TOKEN_BYTES
    resources.check(needed, task.key, f"a corpus of {pairs:,} pairs of up to {task.max_length:,}")


def check_text(folder: str) -> None:
    """Raises ConfigError if the training text of a folder does not fit into memory."""
    path = os.path.join(folder, "train.source")
    if os.path.isfile(path) and not os.path.exists(corpus.binary_paths(folder, "train", "source")["ids"]):
        advice = "memattn-prepare writes a corpus that stays on disk"
        resources.check(3 * os.path.getsize(path), "data.folder", f"the text of {path} ({advice})")


def check_model(model: ModelConfig, vocabulary_size: int) -> list[str]:
    """Returns lines that announce slow steps. Raises ConfigError for a model that does not fit into memory."""
    parameters = least_parameters(model, vocabulary_size)
    if not xla.has_gpu():
        resources.check(parameters * _WEIGHT_BYTES, "model", f"training {parameters:,} parameters or more")
    resources.check(model.layers * _LAYER_BYTES, "model.layers", f"the graph of {model.layers:,} layers")
    if model.layers < _MANY_LAYERS:
        return []
    return [f"the first step with each padded length takes minutes, as the model has {model.layers:,} layers"]


def least_parameters(model: ModelConfig, vocabulary_size: int) -> int:
    """Returns a lower bound on the number of a model's parameters."""
    units = model.units
    if isinstance(model, NeuralGPUConfig):
        return vocabulary_size * units + model.layers * units**2
    encoder, encoder_layers = model.units_of_encoder, model.layers_of_encoder
    sizes = [
        vocabulary_size * model.embedding_size,
        vocabulary_size * (units // 2),
        model.layers * 3 * units**2 + encoder_layers * 3 * 2 * encoder**2,
        _int_option(model, "num_slots") * 2 * encoder,
        _int_option(model, "projection") * units,
    ]
    return sum(sizes)


def _int_option(model: Seq2SeqConfig, name: str) -> int:
    """Returns an int option of the mechanism; 0 if it has none of this name."""
    value = model.attention.get(name)
    return value if isinstance(value, int) else 0


def check_batches(config: Config, batches: TrainingBatches, vocabulary_size: int, replicas: int) -> list[str]:
    """Returns lines that announce large updates. Raises ConfigError for batches that do not fit into memory."""
    model, training = config.model, config.training
    rows, source, target = batches.largest
    tokens = f"up to {max(source, target):,} tokens on a side"
    pairs = training.accumulate * rows
    key = "training.batch_size" if training.accumulate == 1 else "training.accumulate"
    resources.check(4 * pairs * (source + target), key, f"an update of {pairs:,} pairs with {tokens}")
    lines = []
    if pairs > batches.pairs:
        lines.append(f"an update reads {pairs:,} pairs, {pairs / batches.pairs:.3g} times the corpus")
    if isinstance(model, Seq2SeqConfig) and not xla.has_gpu():
        rows = -(-rows // replicas)
        kept = _kept_bytes(model, training, rows, source, target, vocabulary_size)
        resources.check(kept, "training.batch_size", f"a step on {rows:,} pairs with {tokens}")
        if kept > resources.total_memory() / 4:
            lines.append(f"a step takes about {resources.readable(kept)} of memory")
    return lines


def _kept_bytes(
    model: Seq2SeqConfig, training: TrainingConfig, rows: int, source: int, target: int, vocabulary_size: int
) -> float:
    """Returns the bytes that backpropagation keeps on a CPU for a batch of sources and targets of these widths."""
    cells = model.encoder, model.decoder
    is_measured = cells == ("lstm", "lstm") and model.input_feeding and not model.encoder_reduce
    # Half where nothing was measured, so that no model is refused that would fit.
    share = (1.0 if is_measured else 0.5) * (1.0 if training.precision == "float32" else 0.5)
    encoder_layers, encoder_units = model.layers_of_encoder, model.units_of_encoder
    encoder = encoder_layers * (_POSITION_BYTES + _UNIT_BYTES * rows * encoder_units) / 2
    if model.encoder == "cgru":  # a step for each position; each keeps seven numbers for a map of a cell
        encoder = source * encoder_layers * rows * 2 * encoder_units * 7 * 4
    decoder = model.layers * (_POSITION_BYTES + _UNIT_BYTES * rows * model.units) / 2
    return share * (source * encoder + target * (decoder + 4 * rows * vocabulary_size))
