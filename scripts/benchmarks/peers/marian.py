"""Worker: Marian's `s2s` model in PyPI's pymarian, which is built for any x86-64. The worker decodes only.

The two decoder layers have another order than memattn's: an LSTM over the embedding, attention, and an LSTM over the
context. Keys are as wide as the states of the encoder, 2U.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import pymarian
import worker

work = worker.options()
END, UNKNOWN = "</s>", "<unk>"  # ids 0 and 1
words = [f"w{i}" for i in range(work.vocabulary - 2)]


def make_model(folder: str) -> None:
    """Makes a model with random weights that never ends a sentence: one training step on one line, then a bias."""
    with open(os.path.join(folder, "vocabulary.yml"), "w", encoding="utf-8") as file:
        file.writelines(f'"{word}": {i}\n' for i, word in enumerate([END, UNKNOWN, *words]))
    with open(os.path.join(folder, "text"), "w", encoding="utf-8") as file:
        file.write(" ".join(words[:10]) + "\n")
    shape = (
        "--type s2s --enc-type bidirectional --enc-cell lstm --enc-depth 2 --dec-cell lstm --dec-depth 1 "
        f"--dec-cell-base-depth 2 --dim-rnn {work.units} --dim-emb {work.units} "
        f"--dim-vocabs {work.vocabulary} {work.vocabulary} --vocabs vocabulary.yml vocabulary.yml "
        "--train-sets text text --model trained.npz --after 1u --cpu-threads 1 --overwrite"
    )
    pymarian_command = os.path.join(os.path.dirname(sys.executable), "pymarian")
    subprocess.run([pymarian_command, "train", *shape.split()], cwd=folder, check=True, stdout=sys.stderr)
    weights = dict(np.load(os.path.join(folder, "trained.npz")))
    weights["decoder_ff_logit_l2_b"][0, 0] = worker.NO_END
    np.savez(os.path.join(folder, "model.npz"), **weights)


def translator(folder: str, width: int) -> pymarian.Translator:
    """Makes a translator for batches of a padded length `width`, which includes the end of sentence.

    The limit of a hypothesis is a multiple of the width, so each width needs a translator.
    """
    return pymarian.Translator(
        models=[os.path.join(folder, "model.npz")],
        vocabs=[os.path.join(folder, "vocabulary.yml")] * 2,
        cpu_threads=1,
        beam_size=work.beam,
        normalize=1.0,
        mini_batch=work.batch,
        maxi_batch=1,
        workspace=512,
        max_length=work.length + 1,
        max_length_factor=(work.length - 0.5) / width,
        quiet=True,
        quiet_translation=True,
    )


translators = {}


def decode(ids, lengths):
    sources = [row[:length] - worker.FIRST_SYMBOL for row, length in zip(ids, lengths, strict=True)]
    lines = translators[ids.shape[1]].translate([" ".join(words[i] for i in source) for source in sources])
    return [[worker.FIRST_SYMBOL + int(word[1:]) for word in line.split()] for line in lines]


with tempfile.TemporaryDirectory() as folder:
    make_model(folder)
    for ids, _ in worker.batches(work):
        translators[ids.shape[1]] = translator(folder, ids.shape[1] + 1)
notes = f"batch {work.batch}; generic x86-64 build; keys of {2 * work.units} units"
worker.serve_decoding(work, {"pymarian": pymarian.__version__}, notes, decode)
