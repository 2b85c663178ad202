"""Two models of raw text, trained once."""

import pytest
from helpers.runs import NO_STRATEGY, tiny
from helpers.texts import SETTINGS, sentences

from memattn.data.preparation import parallel
from memattn.runs.trained import load
from memattn.training.trainer import train


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """The run folders of two models that learned to copy raw text, and the folder that holds them and the text."""
    folder = tmp_path_factory.mktemp("text")
    files = {}
    for split, number in (("train", 400), ("valid", 20), ("test", 20)):
        words = [[word for word in line.split() if word.isalpha()][:5] for line in sentences(number, split)]
        lines = [" ".join(["Haus", *line]) + "." for line in words]
        files[split] = tuple(str(folder / f"{split}.{side}") for side in ("en", "de"))
        for path in files[split]:
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
    parallel.prepare(files, SETTINGS, str(folder / "data"), 1)
    run_dirs = []
    for name in ("memory", "bahdanau"):
        changes = {
            "data": {"folder": str(folder / "data"), "num_buckets": 1},
            "model": {"layers": 1, "units": 48, "embedding_size": 48, "dropout": 0.0, "init_scale": 0.1},
            "model.attention": {"name": name},
            "training.batch_size": 50,
            "training.max_steps": 120,
            "training.validate_every": 60,
            "training.checkpoint_every": 60,
            "decoding": {"beam_size": 3, "batch_size": 8, "jit_compile": False},
        }
        run_dirs.append(str(folder / name))
        assert train(tiny(changes), run_dirs[-1], NO_STRATEGY) == 0
    return run_dirs, folder


@pytest.fixture(scope="module")
def trained(runs):
    """The trained run with Bahdanau attention."""
    return load(runs[0][1:], [], None)
