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
from memattn.evaluation.metrics import LARGEST, METRICS

_IN_ALL_VERSIONS = ("bleu", "exact_match")  # scores in the result.json of every version


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """Scores, times and conditions of an evaluation.

    Attributes:
      scores: values by the names of metrics; results of former versions lack some.
      signatures: settings of the metrics that have any, by name.
      decode_seconds: time for the whole test set; median over the repeats.
      excluded_from_time: work that the time does not include.
      split: name of the test set.
      dtype: type that the model computed in.
      trained_on: folder of the training data.
      overrides: changes of the run's `decoding`, as arguments of --set.
      parameters: number of weights, in all models of an ensemble together.
      step: training step of the checkpoint; of several, the latest.
      checkpoints: paths of the checkpoints; several for averaged weights or an ensemble.
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
        """The shortest and the longest decode time in seconds, as text."""
        return formatting.extent([self.decode_seconds_min, self.decode_seconds_max], ".3g")

    def to_json(self) -> dict[str, Any]:
        """Returns the content of result.json: a score under its metric's NAME, its signature under NAME_signature."""
        scores: dict[str, float | str] = {}
        for name, score in self.scores.items():
            scores[name] = score
            if name in self.signatures:
                scores[f"{name}_signature"] = self.signatures[name]
        return {**scores, **{name: getattr(self, name) for name in _types_by_field()}}

    @classmethod
    def from_json(cls, content: Any) -> "Result":
        """Makes a result from the content of a result.json.

        Raises ValueError if it is damaged, or if a field is missing that has no default.
        """
        reading.check_types(content, {})
        fields = dataclasses.fields(cls)
        optional = {field.name for field in fields if field.default_factory is list or field.default == ""}
        stored = {name: types for name, types in _types_by_field().items() if name in content or name not in optional}
        metrics = [name for name in METRICS if name in content or name in _IN_ALL_VERSIONS]
        reading.check_types(content, stored | dict.fromkeys(metrics, (float,)))
        for name in (*stored, *metrics):
            is_number = isinstance(content[name], (int, float))
            if is_number and not abs(content[name]) < LARGEST:  # refuses NaN, too
                raise ValueError(f"{name}: {abbreviated(content[name])} cannot be")
        signatures = [f"{name}_signature" for name in metrics if f"{name}_signature" in content]
        reading.check_types(content, dict.fromkeys(signatures, str))
        if not all(isinstance(each, str) for name in ("checkpoints", "overrides") for each in content.get(name, [])):
            raise ValueError("checkpoints, overrides: expected lists of text")
        return cls(
            scores={name: float(content[name]) for name in metrics},
            signatures={name: content[key] for name in metrics if (key := f"{name}_signature") in content},
            **{name: content[name] for name in stored},
        )

    @classmethod
    def read(cls, path: str) -> "Result":
        """Reads a result.json. Raises DataError, OSError."""
        content = reading.json_file(path)
        try:
            return cls.from_json(content)
        except ValueError as error:
            raise DataError(f"{path}: {error}") from error


@functools.cache
def _types_by_field() -> dict[str, tuple[type, ...]]:
    """Returns the types that each field of a result may have, except for the scores and their signatures."""
    hints = typing.get_type_hints(Result)
    return {name: _types(hint) for name, hint in hints.items() if name not in ("scores", "signatures")}


def _types(hint: Any) -> tuple[type, ...]:
    """Returns the types of a union, or the single type; `list` for `list[str]`."""
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return tuple(typing.get_origin(option) or option for option in options)
