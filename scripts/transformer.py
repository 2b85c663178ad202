"""Trains small Transformers whose decoder reads all states of the encoder or K slots, or measures their decode times.

KERAS_BACKEND=tensorflow python scripts/transformer.py --tasks copy --seeds 1,2,3
KERAS_BACKEND=tensorflow python scripts/transformer.py --times

A row of the table is a trained model with its scores on held-out examples; rows that the output already has are not
trained again. With --times, a row is a length of the source, and an untrained model; a picture shows them.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import os

from absl import flags
from studies import standalone

from memattn import files


def main() -> int:
    options = flags.FLAGS
    output = options.output + ("times" if options.times else "table")
    files.make_folder(os.path.dirname(output))
    path = f"{output}.json"
    (_time if options.times else _train)(output, files.read_json(path)["rows"] if os.path.exists(path) else [])
    return 0


def _train(output: str, rows: list[dict]) -> None:
    from studies import transformer

    options = flags.FLAGS
    for task in options.tasks:
        for seed in map(int, options.seeds):
            for name in options.models:
                corpora = transformer.TASKS[task]
                last = {"task": list(corpora)[-1], "decoder reads": name, "seed": seed}
                if not any(last.items() <= row.items() for row in rows):
                    for row in transformer.results(corpora, name, seed=seed):
                        _write(output, rows, [row])
                        files.write_csv(f"{options.output}seeds.csv", transformer.over_seeds(rows))


def _time(output: str, rows: list[dict]) -> None:
    from studies import transformer

    options = flags.FLAGS
    for beam, batch in transformer.TIMED:
        for length in map(int, options.lengths):
            _write(output, rows, transformer.decode_times(length, options.models, beam=beam, batch=batch))
    transformer.draw_times(f"{output}.svg", rows)


def _write(output: str, rows: list[dict], added: list[dict]) -> None:
    """Adds rows to the table, and to its JSON with the conditions under which they were made."""
    from memattn.runs.result import conditions

    rows += [{**row, "conditions": conditions()} for row in added]
    table = [{name: row[name] for name in row if name != "conditions"} for row in rows]
    standalone.write_table(output, table, {"rows": rows})


if __name__ == "__main__":
    flags.DEFINE_boolean("times", False, "Measure decode times in place of training.")
    flags.DEFINE_list("tasks", "copy", "Tasks: copy, multi30k, bible (1 verse, then 4, then 8 to an example).")
    flags.DEFINE_list(
        "models",
        "all states,windowed slots,stretch means,Perceiver latents",
        "What decoders read: these, slots without windows, a memory per layer, a memory per head.",
    )
    standalone.define_numbers("seeds", "1", "Seeds of weights and batches.")
    standalone.define_numbers("lengths", "25,50,100,200,400,800", "Source lengths of --times.")
    flags.DEFINE_string("output", "runs/results/transformer/", "Folder of the table, with a / at its end.")
    cli.run(main, tensorflow=True)
