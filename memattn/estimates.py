"""What making the paper's tables and figures takes: counted, or tried for a few steps at full size."""

import json
import time

import numpy as np
import tensorflow as tf

from memattn import config as configs
from memattn import floor, run, tables
from memattn.attention import MECHANISMS
from memattn.config import Config
from memattn.errors import RunError
from memattn.reproduce import config_paths
from memattn.train import STRATEGIES
from memattn.training_step import TrainingStep
from memattn.vocab import SPECIAL_TOKENS

_BPE_UNITS, _UNITS_A_SENTENCE = 16_000, 30  # of translation


def estimate(names: list[str], scale: str, *, gigaflops: float | None) -> str:
    """The runs of targets as a Markdown table, with what each takes at least.

    `gigaflops` is the rate of matrix products (two for a multiply-add); by default this machine's is measured.
    """
    rate = gigaflops * 5e8 if gigaflops else floor.multiply_adds_per_second(1280, 512, 1024)
    rows, parameters = [], {}
    for path in config_paths(names, scale):
        for name, config in configs.expand(configs.load(path, [], MECHANISMS), MECHANISMS).items():
            shape = json.dumps(configs.to_dict(config)["model"]) + str(_vocabulary(config))
            if shape not in parameters:
                parameters[shape] = run.build_model(config, _vocabulary(config), 100).count_params()
            least = _least(config, parameters[shape])
            rows.append(
                {
                    "config": path,
                    "run": name,
                    "parameters": f"{parameters[shape]:,}",
                    "steps": f"{config.training.max_steps:,}",
                    "GiB": f"{least.bytes / 2**30:.2f}",
                    "hours": f"{config.training.max_steps * least.multiply_adds / rate / 3600:.3g}",
                }
            )
    if not rows:
        return f"{', '.join(names)}: nothing is trained"
    hours = sum(float(row["hours"]) for row in rows)
    return (
        f"{tables.markdown(rows)}\n{len(rows)} runs, {hours:.3g} hours at {rate / 5e8:,.0f} GFLOP/s. Steps at most; "
        "memory and time at least: padding, TensorFlow's own memory, and all but matrix products come on top.\n"
    )


def rehearse(names: list[str], scale: str, *, steps: int, strategy: str) -> str:
    """Updates the costliest run of each config `steps` times with full batches of the greatest length, of random ids.

    Returns a Markdown table of how long that took. Raises RunError where the loss is not finite.
    """
    rows = []
    for path in config_paths(names, scale):
        runs = configs.expand(configs.load(path, [], MECHANISMS), MECHANISMS)
        name, config = max(runs.items(), key=lambda item: _least(item[1], 0).multiply_adds)
        data, vocabulary = config.data, _vocabulary(config)
        length = 1 + data.copy.max_length if data.copy else data.max_source_length or 2 * _UNITS_A_SENTENCE
        print(f"{path}: {name}, {length} tokens", flush=True)
        devices = STRATEGIES[strategy]()
        with devices.scope():
            model = run.build_model(config, vocabulary, length)
            step = TrainingStep(model, config.training, devices)
        random, seconds = np.random.default_rng(0), []
        for number in range(steps):
            batch = random.integers(
                len(SPECIAL_TOKENS), vocabulary, (2, config.training.batch_size, length), dtype=np.int32
            )
            started = time.perf_counter()
            loss = float(step([tuple(batch)], number, config.training.learning_rate)[0])
            seconds.append(time.perf_counter() - started)
            if not np.isfinite(loss):
                raise RunError(f"{path}: the loss of {name} is {loss} after {number + 1} steps")
        rows.append(
            {
                "config": path,
                "run": name,
                "parameters": f"{model.count_params():,}",
                "batch": config.training.batch_size,
                "tokens": length,
                "first step s": f"{seconds[0]:.3g}",
                "step s": f"{min(seconds):.3g}",
            }
        )
        tf.keras.backend.clear_session()
    if not rows:
        return f"{', '.join(names)}: nothing is trained"
    return f"{tables.markdown(rows)}\nThe first step is traced and compiled; sentences of a corpus are shorter.\n"


def _vocabulary(config: Config) -> int:
    return len(SPECIAL_TOKENS) + (config.data.copy.num_symbols if config.data.copy else _BPE_UNITS)


def _least(config: Config, parameters: int) -> floor.Update:
    """The least that an update takes, sentences being of average length."""
    length = 1 + (config.data.copy.max_length / 2 if config.data.copy else _UNITS_A_SENTENCE)
    return floor.training(
        config,
        vocabulary=_vocabulary(config),
        source_length=length,
        target_length=length,
        parameters=parameters,
    )
