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

# Lengths are uniform on 0..L in Table 1 and average 35 in Table 3.
TABLES: dict[int, tuple[list[int], dict[str, Any]]] = {
    1: ([20, 50, 100, 200], {"source_lengths": "uniform", "examples": 1000, "units": 256, "vocabulary": 24}),
    3: ([35], {"source_lengths": "news", "examples": 2169, "units": 512, "vocabulary": 16_004}),
}

TIMED = {
    1: [
        "memattn: no attention",
        *(f"memattn: memory, K = {slots}" for slots in (1, 4, 16, 32, 64)),
        "memattn: Bahdanau",
    ],
    3: ["memattn: memory, K = 32", "memattn: memory, K = 64", *systems.POSITIONS, "memattn: Bahdanau"],
}


def main() -> None:
    options = flags.FLAGS
    lengths, table = TABLES[int(options.table)]
    rows = []
    options.set_default("systems", TIMED[int(options.table)])
    options.set_default("output", f"runs/results/speed/table{options.table}")
    for length in lengths:
        examples = options.examples or table["examples"]
        work = {**table, "length": length, "examples": examples, "batch": options.batch_size}
        work |= {"beam": 10, "as_source": True}
        measured = race.race({name: (name, work) for name in options.systems}, options)
        paper = printed.TABLE_3_SECONDS
        if options.table == "1":
            paper = dict(zip(printed.TABLE_1_MODELS, printed.TABLE_1_SECONDS[length], strict=True))
        for name, result in measured.items():
            system = systems.SYSTEMS[name]
            is_papers = not (system.selected or system.model) and system.precision == "float32"
            seconds = paper.get(names.model(system.attention)) if is_papers else None
            ratio = round(paper["bahdanau"] / seconds, 2) if seconds else ""
            rows.append({**tables.row(name, length, result, measured), "paper: speed-up over Bahdanau": ratio})
    title = f"Table {options.table}: decode time of {work['examples']:,} sources"
    if work["examples"] < table["examples"]:
        title += f" (SCALED DOWN from {table['examples']:,})"
    tables.write(rows, options, title=title, units=table["units"], vocabulary=table["vocabulary"])


def define_flags() -> None:
    """Defines the flags of `main`."""
    # The libraries cannot end hypotheses at their sources' lengths.
    race.define_flags(systems=TIMED[1], known=systems.of_memattn(selecting=True))
    tables.define_output("paper")
    flags.DEFINE_enum("table", "1", ["1", "3"], "Table of the paper.")
    flags.DEFINE_integer("examples", None, "Number of sources (default: the table's).", lower_bound=1)
    flags.DEFINE_integer("batch_size", 32, "Sources decoded together.", lower_bound=1)
