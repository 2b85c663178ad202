"""Names and reads the files of an evaluation, which stand in RUN/eval/SPLIT."""

import os

from memattn.data.text_files import read_lines

RESULT, HYPOTHESES, REFERENCES, N_BEST = "result.json", "hypotheses.txt", "references.txt", "n_best.tsv"
DETOKENIZED = ("hypotheses.detokenized.txt", "references.detokenized.txt")
ALIGNMENTS = "alignments"


def folder_of(run_dir: str, test_set: str) -> str:
    """Returns the folder of a run's results on a split, or on the file with the path `test_set`."""
    return os.path.join(run_dir, "eval", os.path.basename(test_set))


def read_translations(run_dir: str, split: str) -> tuple[list[str], list[str]]:
    """Reads a run's hypotheses and references, words divided by spaces. Raises DataError, OSError."""
    folder = folder_of(run_dir, split)
    return read_lines(os.path.join(folder, HYPOTHESES)), read_lines(os.path.join(folder, REFERENCES))
