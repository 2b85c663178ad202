"""A tiny config of a study, made-up runs of studies, and the tables that studies write."""

import os
from types import SimpleNamespace

from studies import runner
from studies.output import Output

from helpers.repository import ROOT
from helpers.runs import made_up_result
from memattn import config as configs
from memattn import files
from memattn.sweeps.runs import SweepRun, expand

TINY = """
data:
  copy: {max_length: 12, num_symbols: 3, train_examples: 40, valid_examples: 20}
  num_buckets: 1
model: {layers: 1, units: 8, embedding_size: 8, dropout: 0.0, attention: {name: memory, num_slots: 4}}
training: {batch_size: 8, max_steps: 4, validate_every: 2, checkpoint_every: 2, jit_compile: false}
decoding: {beam_size: 2, jit_compile: false}
sweep:
  cells:
    - {model.attention.encoder_scoring: softmax, model.attention.decoder_scoring: softmax}
    - {model.attention.encoder_scoring: sigmoid, model.attention.decoder_scoring: sigmoid}
"""


def made_up(kind, *, bleu, valid=None, scale="small"):
    """Finished runs of a study, made up: bleu(config) is the test score, valid(config) that of the last validation."""
    runs = []
    for path in runner.configs_of(kind, scale):
        config = configs.load(str(ROOT / path), [])
        for name, run_config in expand(config).items():
            scores = {"bleu": bleu(run_config), "sacrebleu": bleu(run_config), "exact_match": 50.0}
            result = made_up_result(run_config, scores=scores, step=20, sentences=100, parameters=1000)
            last = {"step": "20", "bleu": str((valid or bleu)(run_config)), "seconds": "7"}
            curve = [{"step": "10", "bleu": "1.0"}, last]
            folder = os.path.join(runner.sweep_folder(path), name)
            runs.append(SweepRun(name, folder, run_config, result, curve))
    return runs


def run_in_forks(command, folder, monkeypatch):
    """Changes to a folder, and has studies train and evaluate there in forks of a process (the fixture `command`)."""

    def run_forked(module, name, run_dir, arguments, processes):
        del name, processes
        return command(folder, module, "--run_dir", run_dir, *arguments).returncode

    monkeypatch.chdir(folder)
    monkeypatch.setattr(runner.sweep, "command", run_forked)


def make_reproduction(**changes):
    """A reproduction at the scale "small", in the working directory, with some other options."""
    options = {"scale": "small", "results_dir": "results", "jobs": 1}
    return runner.Reproduction(SimpleNamespace(**{**options, **changes}))


def reproduce_tiny(target, studies, command, folder, monkeypatch):
    """Trains a target's runs in a folder, from configs by kind whose base is TINY; returns the rows of its table."""
    run_in_forks(command, folder, monkeypatch)
    (folder / "tiny.yaml").write_text(TINY, encoding="utf-8")
    for kind, text in studies.items():
        write_study(folder, kind, text)
    reproduction = make_reproduction()
    reproduction.make(target)
    assert reproduction.failed == []
    return rows_of(Output(str(folder / "results" / target / "small"), "small"))


def write_study(folder, kind, text):
    """Writes the config of a study at the scale "small"."""
    path = folder / "configs" / "studies" / kind / "small.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def rows_of(output):
    """The rows of the table that a study wrote."""
    return files.read_csv(output.path("table.csv"))
