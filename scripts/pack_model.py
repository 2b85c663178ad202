"""Packs a trained run as a small archive that others can unpack and translate with.

python scripts/pack_model.py --run_dir runs/multi30k.en-de --output build/memattn-m30k-en-de.tar.xz

Each matrix of weights is rounded to 255 values, which xz compresses to less than a byte for each weight. The archive
holds a run folder with the best checkpoint, without those that training resumes from, and a model card with the scores
of the rounded weights.
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import dataclasses
import os
import tarfile
import tempfile

from absl import flags

from memattn import files
from memattn.errors import ConfigError

SUFFIX = ".tar.xz"
_LARGEST_MULTIPLE = 127  # rounded weights are -127 to 127 times a step


def main() -> None:
    from memattn.evaluation.evaluate import evaluate, read_split
    from memattn.evaluation.model_card import model_card
    from memattn.runs import checkpoints
    from memattn.runs.run import MODEL_CARD, Run
    from memattn.runs.trained import load

    options = flags.FLAGS
    name = os.path.basename(options.output).removesuffix(SUFFIX)
    if not options.output.endswith(SUFFIX) or not name:
        raise ConfigError(f"--output: {options.output} does not end in NAME{SUFFIX}")
    trained = load([options.run_dir], ["decoding.lexicon=null"])  # the archive has no lexicon
    _round(trained.models[0].weights)
    files.make_folder(os.path.dirname(options.output))
    evaluation = evaluate(trained, read_split(trained, options.split), repeats=1)
    with tempfile.TemporaryDirectory() as parent:
        folder = os.path.join(parent, name)
        metadata = trained.runs[0].metadata
        packed = Run(folder)
        packed.create(trained.config, trained.vocabulary, trained.tokenizer, metadata)
        path = checkpoints.manager(checkpoints.Checkpoint(trained.model), packed.best, 1).save(evaluation.result.step)
        result = dataclasses.replace(evaluation.result, checkpoints=[os.path.relpath(path, parent)])
        files.write(os.path.join(folder, MODEL_CARD), model_card(result))
        with files.writing(options.output) as file, tarfile.open(fileobj=file, mode="w:xz") as archive:
            archive.add(folder, name, filter=_without_owner)
    megabytes = os.path.getsize(options.output) / 1e6
    print(f"{options.output}: {megabytes:.1f} MB, BLEU {result.scores['bleu']:.2f} on {options.split}")


def _round(weights: list) -> None:
    """Rounds each matrix of weights, in place, to multiples of a power of two: at most 127 on either side of 0."""
    import numpy as np

    for weight in weights:
        values = np.asarray(weight)
        largest = np.abs(values).max(initial=0)
        if largest > 0:
            step = 2.0 ** np.ceil(np.log2(largest / _LARGEST_MULTIPLE))
            weight.assign(np.round(values / step) * step)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Returns a member of an archive without the user who packs it."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    flags.DEFINE_string("run_dir", None, "Run folder of memattn-train.", required=True)
    flags.DEFINE_string("output", None, f"Archive to write, NAME{SUFFIX}.", required=True)
    flags.DEFINE_string("split", "test", "Split of the prepared corpus for the scores of the model card.")
    cli.run(main, tensorflow=True)
