"""Trains and evaluates from a Python program, such as a notebook, as the commands do."""

import os
from collections.abc import Mapping, Sequence

from memattn import config as configs
from memattn import files
from memattn.errors import ConfigError
from memattn.evaluation import evaluate as evaluation
from memattn.evaluation import writing
from memattn.evaluation.result import Result
from memattn.evaluation.stored import folder_of
from memattn.evaluation.test_set import read_split
from memattn.runs.trained import load
from memattn.training import distribution
from memattn.training.trainer import Trainer


def train_model(
    config: str | os.PathLike[str] | Mapping, run_dir: str | os.PathLike[str], overrides: Sequence[str] = ()
) -> list[dict[str, float]]:
    """Trains a model as memattn-train does; resumes a training that was stopped.

    On Ctrl-C, the stop button of a notebook, or SIGTERM, the training writes a checkpoint and raises KeyboardInterrupt.
    The same call resumes it.

    Args:
      config: the path of a YAML file, the name of a shipped config such as "copy/small", or a mapping with the keys of
        a config.
      run_dir: the run folder, made if it is missing.
      overrides: changes of the config, as on the command line, such as "model.units=128".

    Returns:
      The rows of the run's validation.csv: numbers by name, such as "step" and "bleu".

    Raises:
      ConfigError: a key, a value or an override cannot be used, the corpus is missing, or the run folder holds a run of
        another config.
      DataError: the corpus is damaged.
      RunError: the checkpoints cannot be used, another process trains in the folder, or the weights are useless.
      OSError: a file cannot be read or written.
      tf.errors.OpError: TensorFlow cannot write a checkpoint or compute a step, for example for want of memory.
      KeyboardInterrupt: the training was stopped; its checkpoint is written, unless by a second Ctrl-C.
    """
    configs.check_overrides(overrides)
    if isinstance(config, Mapping):
        loaded = configs.from_dict(config, overrides)
    elif isinstance(config, (str, os.PathLike)):
        loaded = configs.load(os.fspath(config), overrides)
    else:
        raise ConfigError(f"config: must be a path, a name or a mapping, not {type(config).__name__}")
    run_dir = os.fspath(run_dir)
    strategy = distribution.STRATEGIES["auto"]()
    with distribution.losing_workers(strategy, run_dir):
        trainer = Trainer(loaded, run_dir, strategy)
        trainer.train()
    if trainer.stopping.agreed:
        raise KeyboardInterrupt
    return trainer.run.progress.validations


def evaluate_model(
    run_dir: str | os.PathLike[str],
    split: str = "valid",
    overrides: Sequence[str] = (),
    *,
    repeats: int = 1,
    num_plots: int = 0,
    rouge: bool = False,
) -> Result:
    """Decodes and scores a split with the best checkpoint of a run, and writes the files of memattn-eval.

    Args:
      run_dir: the run folder.
      split: split of the prepared corpus, such as "test".
      overrides: changes of the config's `decoding` and `data.folder`, such as "decoding.beam_size=1".
      repeats: number of timed decodings, of which the median counts; memattn-eval has 5.
      num_plots: number of sentences, the longest, whose alignments are drawn.
      rouge: whether to compute ROUGE, for summaries.

    Returns:
      The content of result.json: `result.scores["bleu"]`, `result.decode_seconds`, and all conditions.

    Raises:
      ConfigError: the split or an override cannot be used, or the corpus is missing.
      DataError: the corpus is damaged.
      RunError: the run has no checkpoint that can be read.
      OSError: a file cannot be read or written.
    """
    configs.check_overrides(overrides)
    if repeats < 1:
        raise ConfigError(f"repeats: must be at least 1, not {repeats}")
    if num_plots < 0:
        raise ConfigError(f"num_plots: must be at least 0, not {num_plots}")
    run_dir = os.fspath(run_dir)
    trained, folder = load([run_dir], list(overrides), None), folder_of(run_dir, split)
    test_set = read_split(trained, split)
    files.make_folder(folder)  # if this fails, it does before the decoding
    evaluated = evaluation.evaluate(trained, test_set, repeats=repeats, rouge=rouge)
    writing.write(evaluated, trained, folder, num_plots=num_plots)
    return evaluated.result
