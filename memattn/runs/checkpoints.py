"""The checkpoints of a run: weights keyed by attribute paths, read whole or not at all."""

import contextlib
import functools
import glob
import os
import re
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from memattn import files
from memattn.errors import RunError, reason, short
from memattn.keras_parts import unsupported

_NAME = "step-"  # and the number of the step
_PATTERN = re.compile(r"[*?\[\\]")  # what TensorFlow takes for a part of a pattern
_LISTING = "checkpoint"  # TensorFlow's list of the checkpoints in a folder, written after the first
_REPLACED = 0.2  # seconds; longer than TensorFlow takes from removing a checkpoint to listing the next
_SLOTS = {"momentums": "momentum", "velocities": "velocity"}  # attributes of Keras' optimizers: names in checkpoints
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"  # TensorFlow's suffix to a variable's path


class Checkpoint:
    """What a checkpoint holds: a model's weights, the optimizer's state, and other objects that TensorFlow can save.

    A weight is stored under its path of attributes, as `model/encoder/forward/0/kernel`, and its slots in the optimizer
    under the slots' names, as `optimizer/momentum/encoder/forward/0/kernel`, independent of Keras' names of weights and
    the order in which layers are made.

    Attributes:
      trackable: what `Kept` saves.
    """

    def __init__(self, model: tf.keras.Model, optimizer: tf.keras.optimizers.Optimizer | None = None, **others):
        self._others = others
        named = named_weights(model)
        self._weights = {path: tensorflow_variable(weight) for path, weight in named.items()}
        parts = {"model": _nested(self._weights)}
        if optimizer is not None:
            paths = {id(weight): path for path, weight in named.items()}
            trained = [paths[id(weight)] for weight in model.trainable_variables]
            slots, single = optimizer_state(optimizer, trained)
            nested = {name: _nested(variables) for name, variables in slots.items()}
            parts["optimizer"] = {"iterations": tensorflow_variable(optimizer.iterations), **single, **nested}
        self.trackable = tf.train.Checkpoint(**parts, **others)

    def read(self, path: str) -> None:
        """Restores a checkpoint. If it cannot be read, changes nothing and raises TensorFlow's error, of any type."""
        folder, name = os.path.split(path)
        with plain_path(folder) as plain:
            self._read(os.path.join(plain, name))

    def _read(self, path: str) -> None:
        shapes = tf.train.load_checkpoint(path).get_variable_to_shape_map()
        for key, weight in self._weights.items():
            if shapes.get(f"model/{key}{_VALUE}") != weight.shape:
                raise ValueError(f"model/{key}: not a weight {weight.shape.as_list()} of this model")
        states = [one for one in self._others.values() if isinstance(one, tf.train.experimental.PythonState)]
        before = [state.serialize() for state in states]
        try:
            status = self.trackable.read(path)
            status.assert_existing_objects_matched()
            status.expect_partial()  # the counter of TensorFlow's CheckpointManager, which 0.2 wrote, is not read
        except Exception:
            for state, value in zip(states, before, strict=True):  # TensorFlow restores these first
                state.deserialize(value)
            raise


class Kept:
    """The last `most` checkpoints that training writes into a folder, listed for TensorFlow; older ones are removed.

    TensorFlow's CheckpointManager takes the paths of what it removes for patterns, and so removes files of other runs.

    Attributes:
      directory: the folder.
    """

    def __init__(self, trackable: tf.train.Checkpoint, directory: str, most: int):
        self._trackable, self.directory, self._most = trackable, directory, most
        state = tf.train.get_checkpoint_state(directory)
        self._steps = [] if state is None else [step_of(path) for path in _ours(state.all_model_checkpoint_paths)]

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the last checkpoint."""
        return self._path(self._steps[-1]) if self._steps else None

    def save(self, checkpoint_number: int) -> str:
        """Writes the checkpoint of that step; returns its path. Raises TensorFlow's errors, OSError."""
        path = self._path(checkpoint_number)
        self._trackable.write(path)
        self._steps = [step for step in self._steps if step != checkpoint_number] + [checkpoint_number]
        self._list()  # with those to be removed: whoever reads the list meanwhile finds a whole checkpoint
        removed, self._steps = self._steps[: -self._most], self._steps[-self._most :]
        for step in removed:
            for old in [f"{self._path(step)}.index", *glob.glob(f"{glob.escape(self._path(step))}.data-*-of-*")]:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(old)
        if removed:
            self._list()
        return path

    def _path(self, step: int) -> str:
        return os.path.join(self.directory, f"{_NAME}{step}")

    def _list(self) -> None:
        """Writes the names in the form of TensorFlow's CheckpointState."""
        lines = [f'all_model_checkpoint_paths: "{_NAME}{step}"\n' for step in self._steps]
        latest = f'model_checkpoint_path: "{_NAME}{self._steps[-1]}"\n'
        files.write(os.path.join(self.directory, _LISTING), "".join([latest, *lines]))


@contextlib.contextmanager
def plain_path(folder: str) -> Iterator[str]:
    """A path by which TensorFlow, too, finds a folder: it takes paths of files that it reads for patterns."""
    if not _PATTERN.search(folder):
        yield folder
        return
    elsewhere = "/tmp" if _PATTERN.search(tempfile.gettempdir()) else None
    with tempfile.TemporaryDirectory(prefix="memattn-", dir=elsewhere) as aside:
        link = os.path.join(aside, "folder")
        os.symlink(os.path.join(os.getcwd(), folder), link)
        yield link


def named_weights(model: tf.keras.layers.Layer) -> dict[str, Any]:
    """The weights of a layer by their paths of attributes, as "encoder/forward/0/kernel".

    Of several paths to a weight, the shortest counts, then the first in the alphabet. Raises ValueError for a weight
    without a path.
    """
    weights = {id(weight): weight for weight in model.weights}
    paths = {}
    for path, found in _variables(model, weights):
        paths.setdefault(id(found), []).append(path)
    lost = [weight.name for key, weight in weights.items() if key not in paths]
    if lost:
        raise ValueError(f"{', '.join(lost)}: no attribute of a layer leads to this weight; assign it to one")
    shortest = {key: min(found, key=lambda path: (len(path), path)) for key, found in paths.items()}
    return {"/".join(path): weights[key] for key, path in shortest.items()}


def _variables(
    value: Any, weights: dict[int, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The weights in a layer, list or mapping, each with its path; an RNN counts as its cell."""
    if id(value) in weights:
        yield path, value
        return
    if isinstance(value, tf.keras.layers.RNN):
        value = value.cell
    if isinstance(value, tf.keras.layers.Layer):
        inside = {name: one for name, one in vars(value).items() if name not in _of_keras()}
    elif isinstance(value, (list, tuple)):
        inside = {str(i): one for i, one in enumerate(value)}
    elif isinstance(value, dict):
        inside = value
    else:
        return
    for name, one in inside.items():
        if not str(name).startswith("_self_"):  # TensorFlow's own lists of the parts
            yield from _variables(one, weights, (*path, str(name).lstrip("_")))


def optimizer_state(
    optimizer: tf.keras.optimizers.Optimizer, paths: list[str]
) -> tuple[dict[str, dict[str, tf.Variable]], dict[str, tf.Variable]]:
    """Returns the variables of an optimizer: slot -> path of the weight -> variable, and those beside the slots.

    `paths` are those of the trained weights, in the order in which the optimizer was built with them. Raises RunError
    for a variable that is no attribute of the optimizer, or in none of its lists.
    """
    slots, single = {}, {}
    known = {id(optimizer.iterations), id(optimizer.learning_rate)}  # the rate is set before each update
    variables = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
    state = {id(variable): variable for variable in variables}
    for attribute, value in vars(optimizer).items():
        name = attribute.strip("_")
        new = state.keys() - known
        if id(value) in new:
            single[name] = tensorflow_variable(value)
            known.add(id(value))
        elif isinstance(value, list) and len(value) == len(paths) and all(id(variable) in new for variable in value):
            slots[_SLOTS.get(name, name)] = dict(zip(paths, map(tensorflow_variable, value), strict=True))
            known.update(map(id, value))
    if lost := [variable.name for key, variable in state.items() if key not in known]:
        raise unsupported(optimizer, f"keeps {short(', '.join(lost))} in no attribute that has one for each weight")
    return slots, single


@functools.cache
def _of_keras() -> set[str]:
    """Attributes of every layer and model, in which Keras lists its parts."""
    return {*vars(tf.keras.layers.Layer()), *vars(tf.keras.Model())}


def _nested(variables: dict[str, tf.Variable]) -> dict:
    """Paths as nested dictionaries."""
    tree = {}
    for path, variable in variables.items():
        *parents, last = path.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = variable
    return tree


def tensorflow_variable(variable) -> tf.Variable:
    """The variable of a weight, which Keras 3 wraps in one of its own."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def restore(checkpoint: Checkpoint, folder: str) -> str | None:
    """Restores the newest readable checkpoint of a folder and returns its path; None if the folder has none.

    Unreadable checkpoints are skipped with a warning. Raises RunError if none of those listed can be read.
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
        raise RunError(f"{folder}: {len(paths)} checkpoints to average, not {number}; see training.keep_checkpoints")
    for weight, total in zip(model.weights, sums, strict=True):
        weight.assign(total / number)
    return paths


def _readable(checkpoint: Checkpoint, folder: str) -> Iterator[str]:
    """Restores the readable checkpoints of a folder one by one, newest first, and yields their paths.

    Training may replace checkpoints meanwhile, so the folder is listed again each time.
    """
    tried, damaged, readable = set(), False, False
    while path := next((path for path in listed(folder) if path not in tried), None):
        tried.add(path)
        try:
            checkpoint.read(path)
        except Exception as error:  # TensorFlow raises errors of any type, such as IndexError for a truncated file
            time.sleep(_REPLACED)
            if path in listed(folder):  # else training has replaced it
                damaged = True
                warnings.warn(f"{path}: unreadable checkpoint, skipped: {reason(error)}", stacklevel=2)
            continue
        readable = True
        yield path
    if damaged and not readable and os.path.exists(os.path.join(folder, _LISTING)):
        raise RunError(f"{folder}: no checkpoint can be read")


def listed(folder: str) -> list[str]:
    """The checkpoints in a folder, newest first. Raises RunError if the file that lists them is damaged."""
    listing = os.path.join(folder, _LISTING)
    if not os.path.exists(listing):
        indices = glob.glob(os.path.join(glob.escape(folder), "*.index"))
        paths = _by_step(path.removesuffix(".index") for path in indices)
        if paths:
            warnings.warn(f"{listing}: missing; using the checkpoints in its folder by name", stacklevel=3)
        return paths
    for pause in (0, _REPLACED):  # TensorFlow first asks for its size, which may be that of its replacement
        time.sleep(pause)
        with contextlib.suppress(ValueError):
            state = tf.train.get_checkpoint_state(folder)
            if state and (paths := _by_step(state.all_model_checkpoint_paths)):
                return paths
    raise RunError(f"{listing}: damaged; remove it to use the checkpoints in its folder by name")


def step_of(path: str) -> int:
    """The step of a checkpoint that training wrote."""
    return int(os.path.basename(path).removeprefix(_NAME))


def _by_step(paths: Iterable[str]) -> list[str]:
    """Checkpoints with the names that training gives, latest step first."""
    return sorted(dict.fromkeys(_ours(paths)), key=step_of, reverse=True)


def _ours(paths: Iterable[str]) -> list[str]:
    """The paths with the names that training gives."""
    return [path for path in paths if re.fullmatch(rf"{_NAME}[0-9]{{1,18}}", os.path.basename(path))]
