"""Trains and evaluates from a Python program, such as a notebook, as the commands do."""

import os
from collections.abc import Mapping, Sequence

from memattn import config as configs
from memattn.errors import ConfigError
from memattn.evaluation.evaluate import evaluate, read_files, read_split, write
from memattn.files import make_folder
from memattn.runs.result import Result
from memattn.runs.run import Run
from memattn.runs.trained import load
from memattn.training import distribution
from memattn.training.trainer import train


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

    Example:
      >>> import memattn
      >>> rows = memattn.train_model("copy/small", "runs/small", ["training.max_steps=50"])
      runs/small: 596,632 parameters, 50,000 training pairs
      ...
      evaluate with: memattn-eval --run_dir runs/small
      >>> rows[-1]["step"]
      50
    """
    if isinstance(config, Mapping):
        loaded = configs.from_dict(config, overrides)
    else:
        loaded = configs.load(os.fspath(config), overrides)
    if train(loaded, os.fspath(run_dir), distribution.STRATEGIES["auto"]()):
        raise KeyboardInterrupt
    return [
        {name: int(value) if value.isdigit() else float(value) for name, value in row.items() if value}
        for row in Run(run_dir).validations
    ]


def evaluate_model(
    run_dir: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    split: str = "valid",
    overrides: Sequence[str] = (),
    *,
    files: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None,
    average: int | None = None,
    repeats: int = 1,
    num_plots: int = 0,
    rouge: bool = False,
    output_dir: str | os.PathLike[str] | None = None,
) -> Result:
    """Decodes and scores a split, or files, with a trained model, and writes the results, as memattn-eval does.

    Args:
      run_dir: the run folder; a list of several forms an ensemble.
      split: split of the prepared corpus, such as "test".
      overrides: changes of the config's `decoding` and `data.folder`, such as "decoding.beam_size=1".
      files: paths of a file of sources, in the form of the training text, and of one of references; instead of a split.
      average: number of the last checkpoints whose weights are averaged; None takes the best checkpoint.
      repeats: number of timed decodings, of which the median counts; memattn-eval has 5.
      num_plots: number of sentences, the longest, whose alignments are drawn.
      rouge: whether to compute ROUGE, for summaries.
      output_dir: folder of the results; by default RUN/eval/SPLIT or RUN/eval/FILE. An ensemble needs one.

    Returns:
      The content of result.json: `result.scores["bleu"]`, `result.decode_seconds`, and all conditions.

    Raises:
      ConfigError: the split or an argument cannot be used, or the corpus is missing.
      DataError: the corpus or a file is damaged.
      RunError: the run has no checkpoint that can be read.
      OSError: a file cannot be read or written.

    Example:
      >>> import memattn
      >>> result = memattn.evaluate_model("runs/small", overrides=["decoding.beam_size=2"])
      >>> result.sentences, sorted(result.scores)[:2]
      (500, ['bleu', 'chrf'])
    """
    run_dirs = [run_dir] if isinstance(run_dir, (str, os.PathLike)) else list(run_dir)
    if len(run_dirs) > 1 and not output_dir:
        raise ConfigError("output_dir: required for an ensemble's results")
    trained = load([os.fspath(each) for each in run_dirs], overrides, average)
    test_set = read_files(trained, *[os.fspath(path) for path in files]) if files else read_split(trained, split)
    folder = os.fspath(output_dir or Run(run_dirs[0]).results_folder(test_set.name))
    make_folder(folder)  # if this fails, it does before the decoding
    evaluation = evaluate(trained, test_set, repeats=repeats, rouge=rouge)
    write(evaluation, trained, folder, num_plots=num_plots)
    return evaluation.result
