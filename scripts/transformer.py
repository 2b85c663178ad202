"""Trains small Transformers whose decoder reads all states of the encoder or K slots, or measures their decode times.

KERAS_BACKEND=tensorflow python scripts/transformer.py --tasks copy --seeds 1,2,3
KERAS_BACKEND=tensorflow python scripts/transformer.py --times

A row of the table is a trained model with its scores on held-out examples; rows that the output already has are not
trained again. With --times, a row is a length of the source, and an untrained model; a picture shows them.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

from absl import flags
from studies import standalone


def main() -> None:
    from studies import transformer

    transformer.make(flags.FLAGS)


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
