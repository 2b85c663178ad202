"""Names, finds and reads the files of evaluations."""

import os
import shlex

from memattn import reading
from memattn.data.text_files import read_lines
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
    folder = _evaluations_folder(run_dir, name)
    split = _split_of(folder)
    names = [split, *_file_names(split)] if split is not None else [name]
    if name not in names:
        problem = f"{folder} holds the results of {split}; memattn-eval writes to another folder with --output_dir"
        raise ConfigError(f"{name}: {problem}")
    return folder


def _split_of(folder: str) -> str | None:
    """Returns the name of the test set whose results a folder holds; None if it has no result, or a damaged one."""
    try:
        return reading.json_file(os.path.join(folder, RESULT), {"split": str})["split"]
    except (OSError, DataError):
        return None


def stored_folder(run_dir: str, name: str) -> str | None:
    """Returns the folder with the results of a run on a split or a file; None if there are none.

    Those in RUN/eval count before those in the run folder, which a sweep may have written earlier. Raises DataError,
    OSError.
    """
    for test_set in (name, *_file_names(name)):
        for folder in (_evaluations_folder(run_dir, test_set), run_dir):
            path = os.path.join(folder, RESULT)
            if os.path.exists(path) and reading.json_file(path, {"split": str})["split"] == test_set:
                return folder
    return None


def file_name(path: str) -> str:
    """Returns the name that a file has as a test set: its shortest path, which has a folder, as no split has."""
    path = os.path.normpath(path)
    return path if os.path.dirname(path) else os.path.join(os.curdir, path)


def _file_names(name: str) -> list[str]:
    """Returns the name of a file, as `file_name` has it, if `name` has a folder or a dot; [] if it names a split."""
    return [file_name(name)] if os.path.dirname(name) or "." in name else []


def _evaluations_folder(run_dir: str, name: str) -> str:
    return os.path.join(run_dir, EVALUATIONS, os.path.basename(name))


def evaluation_command(run_dir: str, name: str) -> str:
    """Returns the command that evaluates a run on a split or a file."""
    is_file = bool(os.path.dirname(name)) or ("." in name and os.path.isfile(name))
    flags = f"--source {shlex.quote(name)} --target FILE" if is_file else f"--split {shlex.quote(name)}"
    return f"memattn-eval --run_dir {shlex.quote(run_dir)} {flags}"


def read_translations(folder: str) -> tuple[list[str], list[str]]:
    """Reads the hypotheses and references of an evaluation, words divided by spaces. Raises DataError, OSError."""
    hypotheses, references = (read_lines(os.path.join(folder, name)) for name in (HYPOTHESES, REFERENCES))
    if len(hypotheses) != len(references) or not references:
        raise DataError(f"{folder}: damaged; {len(hypotheses):,} translations of {len(references):,} references")
    return hypotheses, references
