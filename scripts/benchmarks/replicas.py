"""Counts the bytes that a training step moves between GPUs, and projects their cost; times nothing.

python scripts/benchmark.py replicas

Assumes a ring all-reduce of the gradients, in which each of N GPUs sends and receives 2 (N - 1) / N of their bytes, at
the full rate of the links and not at the same time as other work. If a step takes T without it, N GPUs do N T / (T +
ms) times the work of one, each with a batch of the same size: 90% of N if T is 9 times ms.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import json
import math
import os

from absl import flags

from memattn import config as configs
from memattn import files
from memattn.evaluation import formatting
from memattn.sweeps.expand import expand

CONFIGS = ("configs/studies/table1/paper.yaml", "configs/wmt17/en-de.yaml")
# GPUs, the slowest link of the ring between them, and the link's GB/s in one direction by its standard.
LINKS = ((8, "NVLink 4", 450), (8, "PCIe 4.0 x16", 32), (64, "InfiniBand NDR, one port a machine", 50))


def main() -> int:
    from studies.estimates import vocabulary_size

    from memattn.runs import provenance, run_folder

    output, rows = flags.FLAGS.output, []
    for path in CONFIGS:
        models = {}
        for name, config in expand(configs.load(path, [])).items():
            model = run_folder.build_model(config, vocabulary_size(config), 100)
            models[all_reduced_bytes(model)] = name, model.count_params()
        gradients = max(models)
        name, parameters = models[gradients]
        for gpus, link, rate in LINKS:
            sent = 2 * (gpus - 1) / gpus * gradients
            milliseconds = sent / rate / 1e6
            rows.append(
                {
                    "config": path,
                    "run": name,
                    "parameters": f"{parameters:,}",
                    "GPUs": gpus,
                    "link": link,
                    "GB/s": rate,
                    "MB sent": f"{sent / 1e6:.1f}",
                    "ms": f"{milliseconds:.2f}",
                    "step for 90% ms": f"{9 * milliseconds:.1f}",
                }
            )
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    files.write_csv(f"{output}.csv", rows)
    files.write(f"{output}.json", json.dumps(provenance.conditions(), indent=2) + "\n")
    print(formatting.markdown(rows))
    return 0


def all_reduced_bytes(model) -> int:
    """Counts what a training step sums over the replicas in float32: gradients, loss and number of correct tokens."""
    return 4 * (sum(math.prod(variable.shape) for variable in model.trainable_variables) + 2)


def run() -> None:
    """Defines the flags, then runs `main`."""
    flags.DEFINE_string("output", "results/speed/replicas", "Path of the table, without file extension.")
    cli.run(main, tensorflow=True)
