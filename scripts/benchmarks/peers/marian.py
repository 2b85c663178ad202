"""Worker: a model in PyPI's pymarian, which is Marian built for any x86-64. The worker decodes only.

The two decoder layers of the `s2s` model have another order than memattn's: an LSTM over the embedding, attention, and
an LSTM over the context. Keys are as wide as the states of the encoder, 2U.

The `ssru` model is that of small devices: six Transformer layers encode, and two layers of simpler simple recurrent
units (SSRU) decode. Source, target and output share embeddings.
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
SHAPES = {  # type of model -> options, and the name of the bias of logits
    "s2s": (
        "--type s2s --enc-type bidirectional --enc-cell lstm --enc-depth 2 --dec-cell lstm --dec-depth 1 "
        f"--dec-cell-base-depth 2 --dim-rnn {work.units}",
        "decoder_ff_logit_l2_b",
    ),
    "ssru": (
        "--type transformer --transformer-decoder-autoreg rnn --enc-depth 6 --dec-cell ssru --dec-depth 2 "
        f"--transformer-heads {max(1, work.units // 64)} --transformer-dim-ffn {4 * work.units} --tied-embeddings-all",
        "decoder_ff_logit_out_b",
    ),
}
KIND = "ssru" if work.attention["name"] == "ssru" else "s2s"
GEMM_TYPES = {"float32": "float32", "int8": "intgemm8"}
words = [f"w{i}" for i in range(work.vocabulary - 2)]
pymarian_command = os.path.join(os.path.dirname(sys.executable), "pymarian")


def make_model(folder: str) -> int:
    """Makes a model with random weights that never ends a sentence: one training step on one line, then a bias.

    Returns the number of its parameters.
    """
    with open(os.path.join(folder, "vocabulary.yml"), "w", encoding="utf-8") as file:
        file.writelines(f'"{word}": {i}\n' for i, word in enumerate([END, UNKNOWN, *words]))
    with open(os.path.join(folder, "text"), "w", encoding="utf-8") as file:
        file.write(" ".join(words[:10]) + "\n")
    shape, bias = SHAPES[KIND]
    options = (
        f"train {shape} --dim-emb {work.units} "
        f"--dim-vocabs {work.vocabulary} {work.vocabulary} --vocabs vocabulary.yml vocabulary.yml "
        "--train-sets text text --model trained.npz --after 1u --cpu-threads 1 --overwrite"
    )
    conversion = f"convert --from forced.npz --to model.bin --gemm-type {GEMM_TYPES[work.precision]}"
    subprocess.run([pymarian_command, *options.split()], cwd=folder, check=True, stdout=sys.stderr)
    weights = dict(np.load(os.path.join(folder, "trained.npz")))
    weights[bias][0, 0] = worker.NO_END
    np.savez(os.path.join(folder, "forced.npz"), **weights)
    subprocess.run([pymarian_command, *conversion.split()], cwd=folder, check=True, stdout=sys.stderr)
    return sum(weight.size for name, weight in weights.items() if not name.startswith("special:"))


def translator(folder: str, width: int) -> pymarian.Translator:
    """Makes a translator for batches of a padded length `width`, which includes the end of sentence.

    The limit of a hypothesis is a multiple of the width, so each width needs a translator.
    """
    return pymarian.Translator(
        models=[os.path.join(folder, "model.bin")],
        vocabs=[os.path.join(folder, "vocabulary.yml")] * 2,
        cpu_threads=work.threads,
        beam_size=work.beam,
        normalize=1.0,
        mini_batch=-(-work.batch // work.threads),
        skip_cost=work.beam == 1,  # a greedy search needs no probabilities
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
    parameters = make_model(folder)
    for ids, _ in worker.batches(work):
        translators[ids.shape[1]] = translator(folder, ids.shape[1] + 1)
layers = ", 6 + 2 layers" if KIND == "ssru" else ""
notes = (
    f"{KIND}{layers}, {parameters:,} parameters; batch {work.batch}, {GEMM_TYPES[work.precision]}; generic x86-64 build"
)
worker.serve_decoding(work, {"pymarian": pymarian.__version__}, notes, decode)
