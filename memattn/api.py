"""Trains and evaluates from a Python program, such as a notebook, as the commands do."""

from collections.abc import Mapping, Sequence

from memattn import config as configs
from memattn.errors import ConfigError
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation.result import Result
from memattn.runs.trained import load
from memattn.training import distribution
from memattn.training.trainer import Trainer


def train_model(config: str | Mapping, run_dir: str, overrides: Sequence[str] = ()) -> list[dict[str, float]]:
    """Trains a model as memattn-train does; resumes a training that was stopped.

    An interrupt (Ctrl-C, "stop" in a notebook, SIGTERM) writes a checkpoint first; the same call resumes from it.

    Args:
      config: the path of a YAML file, the name of a shipped config such as "copy/small", or a mapping with the keys of
        a config.
      run_dir: the run folder, made if it is missing.
      overrides: changes of the config, as on the command line, such as "model.units=128".

    Returns:
      The rows of the run's validation.csv: numbers by name, such as "step" and "bleu".

    Raises:
      ConfigError, DataError, RunError, OSError: as the command reports them.
      KeyboardInterrupt: after an interrupt.
    """
    _check_overrides(overrides)
    if isinstance(config, Mapping):
        loaded = configs.from_dict(config, overrides)
    elif isinstance(config, str):
        loaded = configs.load(config, overrides)
    else:
        raise ConfigError(f"config: must be a path, a name or a mapping, not {type(config).__name__}")
    strategy = distribution.STRATEGIES["auto"]()
    with distribution.losing_workers(strategy, run_dir):
        trainer = Trainer(loaded, run_dir, strategy)
        trainer.train()
    if trainer.stopping.agreed:
        raise KeyboardInterrupt
    return trainer.run.progress.validations


def evaluate_model(
    run_dir: str, split: str = "valid", overrides: Sequence[str] = (), *, repeats: int = 1, num_plots: int = 0
) -> Result:
    """Decodes and scores a split with the best checkpoint of a run, and writes the files of memattn-eval.

    Args:
      run_dir: the run folder.
      split: split of the prepared corpus, such as "test".
      overrides: changes of the config's `decoding` and `data.folder`, such as "decoding.beam_size=1".
      repeats: timed decodings; their median counts.
      num_plots: number of sentences, the longest, whose alignments are drawn.

    Returns:
      The content of result.json: `result.scores["bleu"]`, `result.decode_seconds`, and all conditions.

    Raises:
      ConfigError, DataError, RunError, OSError: as the command reports them.
    """
    _check_overrides(overrides)
    trained = load([run_dir], list(overrides), None)
    evaluated = evaluation.evaluate(trained, evaluation.read_split(trained, split), repeats=repeats)
    folder = evaluation.default_folder(run_dir, split)
    evaluation.write(evaluated, trained, folder, num_plots=num_plots)
    return evaluated.result


def _check_overrides(overrides: Sequence[str]) -> None:
    """Raises ConfigError if one override was given in place of a list."""
    if isinstance(overrides, str):
        raise ConfigError(f"overrides: must be a list of strings, not {overrides!r:.80}")
