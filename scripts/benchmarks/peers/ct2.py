"""Worker: a Transformer in CTranslate2, with random weights. The worker decodes only.

Three layers of encoder and of decoder, as wide as memattn's; the source, the target and the output share embeddings.
The weights are made from CTranslate2's specification of a Transformer, without PyTorch. Several threads for one batch
are slower than a single one, so a batch is divided among the threads, and a sentence alone has one.
"""

import tempfile

import ctranslate2
import numpy as np
import worker
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.common_spec import LayerNormSpec, LinearSpec

work = worker.options()
U, V = work.units, work.vocabulary
LAYERS, HEADS = 3, max(1, U // 64)
COMPUTE_TYPES = {"float32": "float32", "int8": "int8_float32"}
tokens = ["<blank>", "<s>", "</s>", "<unk>", *(f"w{i}" for i in range(V - worker.FIRST_SYMBOL))]
ids_of_tokens = {token: i for i, token in enumerate(tokens)}
random = np.random.default_rng(0)


def uniform(rows: int, columns: int) -> np.ndarray:
    return random.uniform(-0.1, 0.1, (rows, columns)).astype(np.float32)


def set_linear(layer: LinearSpec, inputs: int, outputs: int) -> None:
    layer.weight, layer.bias = uniform(outputs, inputs), np.zeros(outputs, np.float32)


def set_norm(layer: LayerNormSpec) -> None:
    layer.gamma, layer.beta = np.ones(U, np.float32), np.zeros(U, np.float32)


def make_model(folder: str) -> int:
    """Writes the model; returns the number of its parameters."""
    model = TransformerSpec.from_config(LAYERS, HEADS)
    embeddings = uniform(V, U)
    model.encoder.embeddings[0].weight = model.decoder.embeddings.weight = model.decoder.projection.weight = embeddings
    model.decoder.projection.bias = np.zeros(V, np.float32)
    for side in (model.encoder, model.decoder):
        for layer in side.layer:
            set_linear(layer.self_attention.linear[0], U, 3 * U)  # queries, keys and values
            set_linear(layer.self_attention.linear[1], U, U)
            set_norm(layer.self_attention.layer_norm)
            set_linear(layer.ffn.linear_0, U, 4 * U)
            set_linear(layer.ffn.linear_1, 4 * U, U)
            set_norm(layer.ffn.layer_norm)
        set_norm(side.layer_norm)
    for layer in model.decoder.layer:
        set_linear(layer.attention.linear[0], U, U)
        set_linear(layer.attention.linear[1], U, 2 * U)  # keys and values of the source
        set_linear(layer.attention.linear[2], U, U)
        set_norm(layer.attention.layer_norm)
    model.register_source_vocabulary(tokens)
    model.register_target_vocabulary(tokens)
    model.validate()
    model.optimize()  # a weight that has been seen becomes the name of the first
    model.save(folder)
    weights = [weight for weight in model.variables().values() if not isinstance(weight, str)]
    return sum(weight.numpy().size for weight in weights if weight.shape)  # scalars are settings


with tempfile.TemporaryDirectory() as folder:
    parameters = make_model(folder)
    translator = ctranslate2.Translator(
        folder, compute_type=COMPUTE_TYPES[work.precision], inter_threads=work.threads, intra_threads=1
    )


def search(ids, lengths, hypotheses):
    """Returns the `hypotheses` most probable translations of each source, in tokens."""
    results = translator.translate_batch(
        [[tokens[i] for i in row[:length]] for row, length in zip(ids, lengths, strict=True)],
        max_batch_size=-(-len(ids) // work.threads),
        beam_size=work.beam,
        num_hypotheses=hypotheses,
        min_decoding_length=work.length,
        max_decoding_length=work.length,
        max_input_length=0,  # no limit
    )
    return [result.hypotheses for result in results]


def decode(ids, lengths):
    return [[ids_of_tokens[token] for token in best] for (best,) in search(ids, lengths, 1)]


first_ids, first_lengths = worker.batches(work)[0]
for hypotheses in search(first_ids, first_lengths, work.beam):
    if len({tuple(hypothesis) for hypothesis in hypotheses}) != work.beam:
        raise SystemExit(f"the search does not keep {work.beam} different hypotheses")
notes = (
    f"Transformer, {LAYERS} + {LAYERS} layers of {U} units, {HEADS} heads, feed-forward layers of {4 * U} units, "
    f"{parameters:,} parameters with shared embeddings; batch {work.batch}, {translator.compute_type}, "
    "one thread a sentence"
)
worker.serve_decoding(work, {"ctranslate2": ctranslate2.__version__}, notes, decode)
