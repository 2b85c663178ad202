"""Names the folders and files of evaluations."""

import os
import shlex

from memattn import reading
from memattn.errors import ConfigError, DataError

RESULT, HYPOTHESES, REFERENCES, N_BEST = "result.json", "hypotheses.txt", "references.txt", "n_best.tsv"
ALIGNMENTS, EVALUATIONS = "alignments", "eval"
DETOKENIZED = ("hypotheses.detokenized.txt", "references.detokenized.txt")


def default_folder(run_dir: str, name: str) -> str:
    """Returns the folder for the results of a test set: the run folder for `valid`, RUN/eval/NAME for any other.

    If the run folder holds the results of another split, as a sweep may have written, `valid` has RUN/eval/valid.
    Raises ConfigError if RUN/eval/NAME holds the results of another test set, such as a file of that name elsewhere.
    """
    if name == "valid" and _split_of(run_dir) in ("valid", None):
        return run_dir
    folder = os.path.join(run_dir, EVALUATIONS, os.path.basename(name))
    if (split := _split_of(folder)) not in (name, None):
        raise ConfigError(f"--output_dir: give one for {name}, since {folder} holds the results of {split}")
    return folder


def _split_of(folder: str) -> str | None:
    """Returns the name of the test set whose results a folder holds; None if it has no result, or a damaged one."""
    try:
        return reading.json_file(os.path.join(folder, RESULT), {"split": str})["split"]
    except (OSError, DataError):
        return None


def stored_folder(run_dir: str, split: str) -> str | None:
    """Returns the folder with the results of a run on a split; None if there are none. Raises DataError, OSError."""
    for folder in (run_dir, os.path.join(run_dir, EVALUATIONS, split)):
        path = os.path.join(folder, RESULT)
        if os.path.exists(path) and reading.json_file(path, {"split": str})["split"] == split:
            return folder
    return None


def evaluation_command(run_dir: str, split: str) -> str:
    """Returns the command that evaluates a run."""
    return f"memattn-eval --run_dir {shlex.quote(run_dir)} --split {shlex.quote(split)}"
