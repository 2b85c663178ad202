"""The result of an evaluation, as an object and as result.json."""

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any

from memattn import reading
from memattn.errors import DataError, abbreviated
from memattn.evaluation import formatting
from memattn.evaluation.metrics import METRICS

_LARGEST = 1e15  # of a number that can be meant
_IN_ALL_VERSIONS = ("bleu", "exact_match")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """Scores, times and conditions of an evaluation.

    Attributes:
      scores: name of a metric -> its value; results of former versions lack some.
      signatures: name of a metric -> settings that it was computed with, where it has any.
      decode_seconds: median over the repeats; of the whole set.
      excluded_from_time: what the time does not include.
      split: name of the test set.
      dtype: what the model computed in.
      trained_on: folder of the training data.
      overrides: how the search differs from the run's config, as arguments of --set.
      parameters: of all models of an ensemble together.
      step: training steps before the (latest) checkpoint.
      checkpoints: paths of the weights; several if they were averaged, or of an ensemble.
      command, memattn, commit, python, tensorflow, keras, device, cores, intra_op_threads, inter_op_threads: as
        `runs.provenance.conditions` gives them.
      config: the run's config, with the overrides, as plain values.
    """

    scores: Mapping[str, float]
    signatures: Mapping[str, str]
    decode_seconds: float
    decode_seconds_min: float
    decode_seconds_max: float
    repeats: int
    sentences_per_second: float
    tokens_per_second: float
    excluded_from_time: str
    sentences: int
    split: str
    beam_size: int
    batch_size: int
    jit_compile: bool
    dtype: str
    trained_on: str = ""
    overrides: list[str] = dataclasses.field(default_factory=list)
    seed: int
    parameters: int
    step: int
    checkpoints: list[str]
    command: str
    memattn: str
    commit: str | None
    python: str
    tensorflow: str
    keras: str
    device: str
    cores: int
    intra_op_threads: int
    inter_op_threads: int
    config: dict[str, Any]

    @property
    def time_range(self) -> str:
        """The shortest and the longest decode time, in seconds."""
        return formatting.extent([self.decode_seconds_min, self.decode_seconds_max], ".3g")

    def to_json(self) -> dict[str, Any]:
        """Returns the content of result.json: each score under its name, its signature under NAME_signature."""
        flat = {}
        for name, score in self.scores.items():
            flat[name] = score
            if name in self.signatures:
                flat[f"{name}_signature"] = self.signatures[name]
        return {**flat, **{name: getattr(self, name) for name in _kinds()}}

    @classmethod
    def from_json(cls, content: Any) -> "Result":
        """Makes a result from the content of a result.json. Raises ValueError if it is damaged, or lacks figures."""
        reading.check_kinds(content, {})
        added = {
            field.name for field in dataclasses.fields(cls) if field.default_factory is list or field.default == ""
        }
        kinds = {name: kind for name, kind in _kinds().items() if name in content or name not in added}
        names = [name for name in METRICS if name in content or name in _IN_ALL_VERSIONS]
        kinds |= dict.fromkeys(names, (float,))
        reading.check_kinds(content, kinds)
        for name in kinds:
            if isinstance(content[name], (int, float)) and not abs(content[name]) < _LARGEST:  # nor NaN
                raise ValueError(f"{name}: {abbreviated(content[name])} cannot be")
        return cls(
            scores={name: float(content[name]) for name in names},
            signatures={name: content[key] for name in names if (key := f"{name}_signature") in content},
            **{name: content[name] for name in _kinds() if name in content},
        )

    @classmethod
    def read(cls, path: str) -> "Result":
        """Reads a result.json. Raises DataError, OSError."""
        try:
            return cls.from_json(reading.json_file(path))
        except ValueError as error:
            raise error if isinstance(error, DataError) else DataError(f"{path}: {error}") from error


@functools.cache
def _kinds() -> dict[str, tuple[type, ...]]:
    """The fields of a result beside its scores, with the types of their values."""
    hints = typing.get_type_hints(Result)
    return {name: _types(hint) for name, hint in hints.items() if name not in ("scores", "signatures")}


def _types(hint: Any) -> tuple[type, ...]:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return tuple(typing.get_origin(option) or option for option in options)
