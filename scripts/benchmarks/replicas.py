"""Counts the bytes that a training step moves between GPUs, and projects their cost; times nothing.

python scripts/benchmark.py replicas

Assumes a ring all-reduce of the gradients, in which each of N GPUs sends and receives 2 (N - 1) / N of their bytes, at
the full rate of the links and not at the same time as other work. The column `ms` is the time R of the all-reduce. If
the rest of a step takes T, and each GPU has a batch of the same size, N GPUs do N T / (T + R) times the work of one
GPU. The column `step for 90% ms` is the T for 90% of N: 9 R.
"""

import math
import os

from absl import flags

from benchmarks import tables
from memattn import cli, files
from memattn import config as configs
from memattn.evaluation import formatting

CONFIGS = ("configs/studies/table1/paper.yaml", "configs/wmt17/en-de.yaml")
# Number of GPUs, the slowest link in their ring, and the standard's GB/s of that link in one direction.
LINKS = ((8, "NVLink 4", 450), (8, "PCIe 4.0 x16", 32), (64, "InfiniBand NDR, one port a machine", 50))


def main() -> int:
    from studies.estimates import vocabulary_size

    from memattn.runs.trained import build_model
    from memattn.sweeps.runs import expand

    options, rows = flags.FLAGS, []
    files.make_folder(os.path.dirname(options.output))
    for path in CONFIGS:
        models_by_bytes = {}
        for name, config in expand(configs.load(path, [])).items():
            model = build_model(config, vocabulary_size(config), {"max_source_length": 100})
            models_by_bytes[all_reduced_bytes(model)] = name, model.count_params()
        gradients = max(models_by_bytes)
        name, parameters = models_by_bytes[gradients]
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
    tables.store(options, rows)
    print(formatting.markdown(rows))
    return 0


def all_reduced_bytes(model) -> int:
    """Counts the bytes that a training step sums over replicas: float32 gradients, loss, number of correct tokens."""
    return 4 * (sum(math.prod(variable.shape) for variable in model.trainable_variables) + 2)


def run() -> None:
    """Defines the flags, then runs `main`."""
    tables.define_output("replicas")
    cli.run(main, tensorflow=True)
