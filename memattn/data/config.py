"""Options of the data: the corpus, and the tasks whose corpora training writes."""

import dataclasses
from typing import Annotated, Any

from memattn.data.corpus import READERS
from memattn.data.tasks import TASKS
from memattn.options import OneOf, Options, PositiveInt, Problems, Seed

_ARITHMETIC = ("addition", "multiplication")


@dataclasses.dataclass(frozen=True)
class CopyConfig(Options):
    """The paper's copy task: uniform random symbols. Training writes the corpus if it does not exist."""

    # L: lengths are uniform on 0 to L. A length is the number of symbols in a source; for lookup, of keys; for
    # arithmetic, of digits in the longer operand
    max_length: PositiveInt = 20
    num_symbols: PositiveInt = 20  # V, the number of different symbols
    train_examples: PositiveInt = 100_000  # pairs to train on
    valid_examples: PositiveInt = 1_000  # pairs to validate on
    seed: Seed = 1  # seed of symbols and lengths

    @property
    def name(self) -> str:
        return "copy"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the task's corpus depends on."""
        return {name: getattr(self, name) for name in sorted(field.name for field in dataclasses.fields(CopyConfig))}

    @property
    def folder(self) -> str:
        """Default folder of the corpus, different for different settings."""
        sizes = f"L{self.max_length}_V{self.num_symbols}_N{self.train_examples}_{self.valid_examples}"
        return f"data/{self.name}_{sizes}_s{self.seed}"


@dataclasses.dataclass(frozen=True)
class TaskConfig(CopyConfig):
    """A task whose targets follow from the sources by a rule."""

    # what the target is. copy: the source; reverse: the source backwards; sort: its symbols in ascending order; lookup:
    # the values of up to L keys in their order, where the source has keys and values in random order; selective_copy:
    # the symbols that the source marks; duplicate: the source twice; addition, multiplication: the result for two
    # numbers of up to L digits in base num_symbols, the lowest digit first, with leading zeros
    name: Annotated[str, OneOf(TASKS)] = "copy"
    marked: PositiveInt = 4  # for selective_copy: number of marked symbols; in a shorter source, all are
    uneven: bool = False  # for addition, multiplication: in half of the pairs, one operand has fewer digits

    @property
    def settings(self) -> dict[str, Any]:
        settings = super().settings
        if self.name != "copy":
            settings["name"] = self.name
        if self.name == "selective_copy":
            settings["marked"] = self.marked
        if self.uneven:
            settings["uneven"] = True
        return settings

    @property
    def folder(self) -> str:
        marked = f"_m{self.marked}" if self.name == "selective_copy" else ""
        return f"{super().folder}{marked}{'_uneven' if self.uneven else ''}"

    def problems(self) -> Problems:
        is_arithmetic = self.name in _ARITHMETIC
        if is_arithmetic and self.num_symbols < 2:
            yield "num_symbols", f"is the base of {self.name}; at least 2, not 1"
        if self.uneven and not is_arithmetic:
            yield "uneven", f"is for {' and '.join(_ARITHMETIC)}, not {self.name}"
        if self.marked != TaskConfig.marked and self.name != "selective_copy":
            yield "marked", f"is for selective_copy, not {self.name}"


@dataclasses.dataclass(frozen=True)
class DataConfig(Options):
    """The corpus: give `data.folder`, a task, or both."""

    # folder of a prepared corpus; null, with a task: a folder under data/, named after the task's settings
    folder: str | None = None
    copy: CopyConfig | None = None  # the copy task; null: data.task, or no task
    task: TaskConfig | None = None  # any other task; null: data.copy, or no task
    # what sources are. tokens: text; features: sequences of vectors, such as `memattn-prepare speech` writes
    source: Annotated[str, OneOf(READERS)] = "tokens"
    num_buckets: PositiveInt = 4  # number of different padded lengths; XLA compiles once for each
    # training skips pairs with a longer source. The length includes the end of sentence, unlike
    # `memattn-prepare --max_length`; that of features is their number of vectors
    max_source_length: PositiveInt | None = None
    max_target_length: PositiveInt | None = None  # training skips pairs with a longer target

    @property
    def generated(self) -> CopyConfig | None:
        """The task whose corpus training writes; None for a prepared corpus."""
        return self.task or self.copy

    @property
    def path(self) -> str:
        """Folder of the corpus."""
        return self.folder or (self.generated.folder if self.generated else "")

    def problems(self) -> Problems:
        if not self.folder and self.generated is None:
            yield "", "names no corpus; give data.folder (a prepared corpus), data.copy or data.task"
        if self.copy and self.task:
            yield "task", "given beside data.copy, which is the task copy; one of them has to be null"
        if self.source == "features" and self.generated:
            key = "data.task" if self.task else "data.copy"
            yield "source", f"features are for a prepared corpus; {key} has tokens"
