"""Times decoding as in the paper's Tables 1 and 3, and compares speed-ups over Bahdanau attention with the paper's.

python scripts/benchmark.py paper --table 1
python scripts/benchmark.py paper --table 3

Hypotheses are as long as their sources, as if the model had learned to copy.
"""

from typing import Any

from absl import flags
from studies import names
from studies.britz2017 import printed

from benchmarks import race, systems, tables

TIMED = [
    "memattn: no attention",
    *(f"memattn: memory, K = {slots}" for slots in (1, 4, 16, 32, 64)),
    "memattn: Bahdanau",
]
# Defaults of flags, by table. Lengths are uniform on 0..L in Table 1 and average 35 in Table 3.
TABLES: dict[str, dict[str, Any]] = {
    "1": {"examples": 1000},
    "3": {
        "lengths": "35",
        "units": 512,
        "vocabulary": 16_004,
        "examples": 2169,
        "systems": [
            "memattn: memory, K = 32",
            "memattn: memory, K = 64",
            "memattn: memory, K = 32, position encodings",
            "memattn: memory, K = 64, position encodings",
            "memattn: Bahdanau",
        ],
    },
}


def main() -> None:
    options = flags.FLAGS
    for name, value in {"output": f"runs/results/speed/table{options.table}", **TABLES[options.table]}.items():
        options.set_default(name, value)
    works = {length: dict.fromkeys(options.systems, _work(length, options)) for length in options.lengths}
    race.check(works.values(), options)
    rows = []
    for length, works_of_length in works.items():
        paper = printed.TABLE_3_SECONDS if length == 35 else {}
        if options.table == "1":
            paper = dict(zip(printed.TABLE_1_MODELS, printed.TABLE_1_SECONDS.get(length, ()), strict=False))
        for row in tables.rows_of(length, race.race(works_of_length, options)):
            system = systems.SYSTEMS[row["system"]]
            is_papers = not (system.selected or system.model) and system.precision == "float32"
            seconds = paper.get(names.model(system.attention)) if is_papers else None
            ratio = round(paper["bahdanau"] / seconds, 2) if seconds else ""
            rows.append({**row, "paper: speed-up over Bahdanau": ratio})
    title = f"Table {options.table}: decode time of {options.examples:,} sources"
    if options.examples < (number := TABLES[options.table]["examples"]):
        title += f" (scaled down from {number:,})"
    tables.write(rows, options, title=title)


def _work(length: int, options: flags.FlagValues) -> dict[str, Any]:
    """Returns the work of every system."""
    return {
        "length": length,
        "source_lengths": "uniform" if options.table == "1" else "news",
        "examples": options.examples,
        "batch": options.batch_size,
        "beam": 10,
        "as_source": True,
    }


def define_flags() -> None:
    """Defines the flags of `main`."""
    # The libraries cannot end hypotheses at their sources' lengths.
    race.define_flags(systems=TIMED, known=systems.OF_MEMATTN, lengths="20,50,100,200")
    tables.define_output("paper")
    flags.DEFINE_enum("table", "1", list(TABLES), "Table of the paper. It also chooses the defaults of the sizes.")
    flags.DEFINE_integer("examples", None, "Number of sources (default: the table's).", lower_bound=1)
    flags.DEFINE_integer("batch_size", 32, "Sources decoded together.", lower_bound=1)
