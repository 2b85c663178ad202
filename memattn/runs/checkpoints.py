"""Writes and reads the checkpoints of a run: weights by attribute path, read completely or not at all."""

import contextlib
import functools
import glob
import os
import re
import time
import warnings
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from memattn.errors import ConfigError, RunError, reason, short

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"  # TensorFlow appends it to the path of a variable
_PREFIX = "step-"  # a checkpoint's name is this and the number of its step
_REMOVING_TIME = 0.2  # seconds; more than training takes to remove the files of a checkpoint
_SLOT_NAMES = {"momentums": "momentum", "velocities": "velocity"}  # names in checkpoints, by Keras' attributes


class Checkpoint:
    """A model's weights, the optimizer's state, and other objects that TensorFlow can save, as one checkpoint.

    A weight is stored under its attribute path, such as `model/encoder/forward/0/kernel`. The optimizer's variables of
    a weight are stored under their kind and the weight's path, such as `optimizer/momentum/encoder/forward/0/kernel`.
    So neither Keras' names nor the order in which layers are made matter.
    """

    def __init__(self, model: tf.keras.Model, optimizer: tf.keras.optimizers.Optimizer | None = None, **kwargs):
        named = named_weights(model)
        self._weights = {path: tensorflow_variable(weight) for path, weight in named.items()}
        parts = {"model": _nested(self._weights)}
        if optimizer is not None:
            paths = {id(weight): path for path, weight in named.items()}
            trained = [paths[id(weight)] for weight in model.trainable_variables]
            parts["optimizer"] = _nested(optimizer_variables(optimizer, trained))
        self.trackable = tf.train.Checkpoint(**parts, **kwargs)  # what `manager` saves

    def read(self, path: str) -> None:
        """Restores a checkpoint. Raises TensorFlow's error, of any type, if it cannot be read.

        Progress may then be that of the checkpoint, while weights are not.
        """
        shapes = tf.train.load_checkpoint(path).get_variable_to_shape_map()
        for key, weight in self._weights.items():
            shape = shapes.get(f"model/{key}{_VALUE}")
            if shape != weight.shape:
                has = "is missing" if shape is None else f"has shape {shape}, not {weight.shape.as_list()}"
                raise ValueError(f"not of this model: model/{key} {has}; was config.yaml or vocab.txt changed?")
        status = self.trackable.read(path)
        status.assert_existing_objects_matched()
        status.expect_partial()  # the counter of TensorFlow's CheckpointManager is read once it exists


def manager(checkpoint: Checkpoint, folder: str, keep: int) -> tf.train.CheckpointManager:
    """Returns what writes the checkpoints step-N into a folder, by `save(N)`, and keeps the last `keep`."""
    try:
        tf.train.get_checkpoint_state(folder)
    except ValueError:  # TensorFlow's list of the checkpoints is damaged, as a full disk or a power failure leaves it
        with contextlib.suppress(FileNotFoundError):  # another worker was first
            os.remove(os.path.join(folder, "checkpoint"))
    return tf.train.CheckpointManager(checkpoint.trackable, folder, keep, checkpoint_name=_PREFIX.removesuffix("-"))


def check_path(path: str) -> None:
    """Raises ConfigError for a path that TensorFlow takes for a pattern."""
    if re.search(r"[*?\[\]\\]", path):
        raise ConfigError(f"{path}: TensorFlow takes *, ?, [, ] and \\ for a pattern; use another folder")


def named_weights(model: tf.keras.layers.Layer) -> dict[str, Any]:
    """Returns the weights of a layer by attribute path, such as "encoder/forward/0/kernel".

    Of several paths to a weight, the shortest counts; of several shortest, the alphabetically first. Raises ValueError
    for a weight without a path.
    """
    weights = {id(weight): weight for weight in model.weights}
    paths: dict[int, list[tuple[str, ...]]] = {}
    for path, weight in _paths_and_weights(model, weights):
        paths.setdefault(id(weight), []).append(path)
    lost = [weight.name for key, weight in weights.items() if key not in paths]
    if lost:
        raise ValueError(f"{', '.join(lost)}: no attribute of a layer leads to this weight; assign it to one")
    shortest = {key: min(candidates, key=lambda path: (len(path), path)) for key, candidates in paths.items()}
    return {"/".join(path): weights[key] for key, path in shortest.items()}


def _paths_and_weights(
    value: Any, weights: dict[int, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the weights in a layer, list or mapping, each with its path. The cell of an RNN has the RNN's path."""
    if id(value) in weights:
        yield path, value
        return
    if isinstance(value, tf.keras.layers.RNN):
        value = value.cell
    if isinstance(value, tf.keras.layers.Layer):
        parts = {name: part for name, part in vars(value).items() if name not in _keras_attributes()}
    elif isinstance(value, (list, tuple)):
        parts = {str(i): part for i, part in enumerate(value)}
    elif isinstance(value, dict):
        parts = value
    else:
        return
    for name, part in parts.items():
        if not str(name).startswith("_self_"):  # such attributes of TensorFlow list the parts a second time
            yield from _paths_and_weights(part, weights, (*path, str(name).lstrip("_")))


def optimizer_variables(optimizer: tf.keras.optimizers.Optimizer, paths: list[str]) -> dict[str, tf.Variable]:
    """Returns the variables of an optimizer by path: those of each weight by SLOT/PATH, single ones by name.

    A slot is a kind of variable that every weight has, such as momentum. `paths` are the paths of the trained weights,
    in the order in which the optimizer was built with them. Raises RunError for a variable in no attribute of the
    optimizer, as that of another library might have.
    """
    variables = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
    unnamed = {id(variable): tensorflow_variable(variable) for variable in variables}
    unnamed.pop(id(optimizer.learning_rate), None)  # it is set before each update
    named = {"iterations": unnamed.pop(id(optimizer.iterations))}
    for attribute, value in vars(optimizer).items():
        name = attribute.strip("_")
        if id(value) in unnamed:
            named[name] = unnamed.pop(id(value))
        elif isinstance(value, list) and len(value) == len(paths) and unnamed.keys() >= set(map(id, value)):
            slot = _SLOT_NAMES.get(name, name)
            named |= {f"{slot}/{path}": unnamed.pop(id(each)) for path, each in zip(paths, value, strict=True)}
    if unnamed:
        names = short(", ".join(variable.name for variable in unnamed.values()))
        raise RunError(f"{type(optimizer).__name__} keeps {names} in no attribute that has one for each weight")
    return named


@functools.cache
def _keras_attributes() -> set[str]:
    """Returns the attributes that every layer and model has; in some of them, Keras lists the parts a second time."""
    return {*vars(tf.keras.layers.Layer()), *vars(tf.keras.Model())}


def _nested(variables: dict[str, tf.Variable]) -> dict:
    """Turns paths into nested dictionaries."""
    tree: dict[str, Any] = {}
    for path, variable in variables.items():
        *parents, last = path.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = variable
    return tree


def tensorflow_variable(variable) -> tf.Variable:
    """Returns TensorFlow's variable of a weight; Keras 3 wraps it in a variable of Keras."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def restore(checkpoint: Checkpoint, folder: str) -> str | None:
    """Restores the newest readable checkpoint of a folder and returns its path; None if the folder has none.

    Skips unreadable checkpoints with a warning. Raises RunError if none of them can be read.
    """
    return next(_readable(checkpoint, folder), None)


def restore_average(model: tf.keras.Model, folder: str, number: int) -> list[str]:
    """Sets a model's weights to the average of the last `number` checkpoints of a folder; returns their paths.

    Raises RunError if fewer can be read.
    """
    paths, sums = [], [0.0] * len(model.weights)
    for path in _readable(Checkpoint(model), folder):
        paths.append(path)
        sums = [total + weight.numpy() for total, weight in zip(sums, model.weights, strict=True)]
        if len(paths) == number:
            break
    if len(paths) < number:
        advice = "training writes one every training.checkpoint_every steps, and keeps training.keep_checkpoints"
        raise RunError(f"{folder}: has {len(paths)} of the {number} checkpoints to average; {advice}")
    for weight, total in zip(model.weights, sums, strict=True):
        weight.assign(total / number)
    return paths


def _readable(checkpoint: Checkpoint, folder: str) -> Iterator[str]:
    """Restores each readable checkpoint of a folder in turn, beginning with the newest, and yields its path.

    Training may replace checkpoints meanwhile, so the folder is listed again each time. Raises RunError at the end if
    there were checkpoints, but none could be read.
    """
    tried, damaged, readable = set(), False, False
    while path := next((path for path in newest_first(folder) if path not in tried), None):
        tried.add(path)
        try:
            checkpoint.read(path)
        except Exception as error:  # TensorFlow raises errors of any type, such as IndexError for a truncated file
            time.sleep(_REMOVING_TIME)
            if path in newest_first(folder):  # otherwise training has replaced it
                damaged = True
                warnings.warn(f"{path}: checkpoint skipped: {reason(error)}", stacklevel=2)
            continue
        readable = True
        yield path
    if damaged and not readable:
        raise RunError(f"{folder}: no checkpoint can be read")


def newest_first(folder: str) -> list[str]:
    """Returns the paths of the checkpoints in a folder, newest first.

    TensorFlow writes a checkpoint's index last, so that each of them is complete. Raises ConfigError for a folder that
    TensorFlow takes for a pattern.
    """
    check_path(folder)
    names = [name.removesuffix(".index") for name in glob.glob("*.index", root_dir=folder)]
    steps = [name for name in names if re.fullmatch(f"{_PREFIX}[0-9]+", name)]
    return [os.path.join(folder, name) for name in sorted(steps, key=step_of, reverse=True)]


def stored_state(folder: str, name: str) -> bytes | None:
    """Returns a PythonState, serialized, by its name in the newest readable checkpoint; None if none can be read."""
    for path in newest_first(folder):
        with contextlib.suppress(Exception):  # TensorFlow raises errors of any type
            return tf.train.load_checkpoint(path).get_tensor(f"{name}/.ATTRIBUTES/py_state")
    return None


def step_of(path: str) -> int:
    """Returns the step of a checkpoint that training wrote."""
    return int(os.path.basename(path).removeprefix(_PREFIX))
