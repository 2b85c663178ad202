"""
Title: Cross-attention over a fixed number of slots
Author: The memattn developers
Date created: 2026/11/29
Last modified: 2026/11/29
Description: A Transformer whose decoder reads 10 slots in place of all encoder states.
Accelerator: None
"""

"""
## Introduction

The decoder of a sequence-to-sequence Transformer attends to all states of its encoder.
For a source of `S` tokens, each layer keeps `S` keys and `S` values, and each decoder
step multiplies its query with all of them. For long sources, this cache and these
products are a growing part of what decoding costs.

Here a layer between encoder and decoder writes the `S` states into `K` slots, once for
each source. The decoder then reads the slots with an unchanged
`keras.layers.MultiHeadAttention`. A decoder step costs the same for any `S`.

The idea is that of
[Efficient Attention using a Fixed-Size Memory Representation](https://arxiv.org/abs/1707.00110)
(Britz, Guan and Luong, 2017). In the paper, a slot is a sum of states, and each state
decides which slots it is added to. Here, a slot is a weighted mean over the positions
of the source, and begins with a stretch of the source of its own.

The model learns to copy, which is a hard test for slots: nothing in the source may be
forgotten. The example runs on TensorFlow, JAX and PyTorch.
"""

"""
## Setup
"""

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import layers, ops

num_slots = 10
longest = 40  # tokens in a source
vocabulary_size = 20  # 0 is padding, 1 starts a target
width = 64
num_heads = 4
batch_size = 64
epochs = 10

"""
## The layer

Slot `k` is a weighted mean of the states, `slots[k] = sum_t weights[t, k] * states[t]`.
The weights of a slot are a softmax over the positions `t`. Their logits have two parts:

- `states[t] @ W`, with `K` columns, which is learned;
- a window, `-0.5 * (4 * d) ** 2`, where `d` is the distance between position `t` and
  the middle of the `k`-th of `K` equal stretches of the source, in stretches.

The first part is small at first, so a slot begins as a mean over its stretch. A window
lowers logits by at most 8, so training can let a slot look elsewhere.

Padding gets no weight, and does not count as a position. All slots are real, so the
mask ends here: `compute_mask` returns `None`, and the cross-attention needs no mask.
"""


class SlotMemory(layers.Layer):
    """Writes states `[B, S, D]` into slots `[B, K, D]`."""

    def __init__(self, num_slots, **kwargs):
        super().__init__(**kwargs)
        self.num_slots = num_slots
        self.scores = layers.Dense(num_slots, use_bias=False)
        self.supports_masking = True

    def build(self, states_shape):
        self.scores.build(states_shape)

    def call(self, states, mask=None):
        weights = self.writing_weights(states, mask)
        return ops.einsum("bsk,bsd->bkd", weights, states)

    def writing_weights(self, states, mask=None):
        """Returns the weight of each state in each slot, `[B, S, K]`."""
        if mask is None:
            mask = ops.ones(ops.shape(states)[:2], dtype="bool")
        real = ops.cast(mask, "float32")
        lengths = ops.sum(real, axis=1, keepdims=True)
        stretch = ops.maximum(lengths, 1.0)[:, :, None] / self.num_slots
        positions = (ops.cumsum(real, axis=1) - 0.5)[:, :, None]
        middles = (ops.arange(self.num_slots, dtype="float32") + 0.5) * stretch
        # A source shorter than `num_slots` has stretches of less than a position.
        distances = (positions - middles) / ops.maximum(stretch, 1.0)
        windows = ops.maximum(-0.5 * ops.square(4 * distances), -8.0)
        logits = ops.cast(self.scores(states), "float32") + windows
        logits = ops.where(ops.cast(mask, "bool")[:, :, None], logits, -1e9)
        return ops.cast(ops.softmax(logits, axis=1), self.compute_dtype)

    def compute_mask(self, states, mask=None):
        return None

    def compute_output_shape(self, states_shape):
        return (states_shape[0], self.num_slots, states_shape[2])

    def get_config(self):
        return {**super().get_config(), "num_slots": self.num_slots}


"""
## Data

A source is a sequence of 20 to 40 random tokens, and the target is the same sequence.
The decoder reads the target shifted by one position. Padding has the weight 0, in the
loss and in the accuracy.
"""

random = np.random.default_rng(1)


def make_examples(number):
    tokens = random.integers(2, vocabulary_size, size=(number, longest))
    lengths = random.integers(longest // 2, longest + 1, size=(number, 1))
    tokens = np.where(np.arange(longest) < lengths, tokens, 0).astype("int32")
    shifted = np.pad(tokens[:, :-1], [(0, 0), (1, 0)], constant_values=1)
    shifted = np.where(tokens > 0, shifted, 0).astype("int32")
    sample_weight = (tokens > 0).astype("float32")
    return {"source": tokens, "target": shifted}, tokens, sample_weight


inputs, targets, sample_weight = make_examples(12_800)
test_examples = make_examples(500)

"""
## Model

Encoder and decoder have two layers each. The two models that we compare differ in one
line: the decoder reads the output of the encoder, or slots that are written from it.
Layers get the mask of padding as an argument, because a sum of layers does not keep it.
"""


def embed(tokens):
    positions = ops.cumsum(ops.ones_like(tokens), axis=1)
    return layers.add(
        [
            layers.Embedding(vocabulary_size, width)(tokens),
            layers.Embedding(longest + 1, width)(positions),
        ]
    )


def attend(queries, values, **options):
    attention = layers.MultiHeadAttention(num_heads, width // num_heads)
    return layers.LayerNormalization()(
        layers.add([queries, attention(queries, values, **options)])
    )


def feed_forward(x):
    hidden = layers.Dense(2 * width, activation="relu")(x)
    return layers.LayerNormalization()(layers.add([x, layers.Dense(width)(hidden)]))


def make_model(slot_memory=None):
    source = keras.Input([None], dtype="int32", name="source")
    target = keras.Input([None], dtype="int32", name="target")
    mask = ops.not_equal(source, 0)
    masked = {"attention_mask": ops.expand_dims(mask, 1)}  # [B, 1, S]
    states = embed(source)
    for _ in range(2):
        states = feed_forward(attend(states, states, **masked))
    memory = states
    if slot_memory:
        memory, masked = slot_memory(states, mask=mask), {}
    x = embed(target)
    for _ in range(2):
        x = attend(x, x, use_causal_mask=True)
        x = feed_forward(attend(x, memory, **masked))
    logits = layers.Dense(vocabulary_size)(x)
    model = keras.Model({"source": source, "target": target}, logits)
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
    )
    return model


"""
## Training

Accuracy is that of the next token, given the true tokens before it. These say nothing
about the next one, so it must come from the source.
"""

models = {
    "all states": make_model(),
    f"{num_slots} slots": make_model(SlotMemory(num_slots, name="slots")),
}
for name, model in models.items():
    history = model.fit(
        inputs,
        targets,
        sample_weight=sample_weight,
        batch_size=batch_size,
        epochs=epochs,
        validation_data=test_examples,
        verbose=0,
    ).history
    plt.plot(range(1, epochs + 1), history["val_accuracy"], label=name)
    print(f"{name}: accuracy {history['val_accuracy'][-1]:.3f}")
plt.xlabel("epoch")
plt.ylabel("accuracy of the next token")
plt.legend()
plt.show()

"""
## What a slot holds

`writing_weights` says which positions a slot is the mean of. Of two sources, the second
is shorter; its slots share the positions that it has.
"""

model = models[f"{num_slots} slots"]
slot_memory = model.get_layer("slots")
encoder = keras.Model(model.input["source"], slot_memory.input)
tokens = test_examples[0]["source"]
lengths = (tokens > 0).sum(axis=1)
tokens = tokens[[lengths.argmax(), lengths.argmin()]]
states, mask = map(ops.convert_to_tensor, encoder.predict(tokens, verbose=0))
weights = slot_memory.writing_weights(states, mask)
_, axes = plt.subplots(1, 2, figsize=(10, 3))
for axis, picture in zip(axes, ops.convert_to_numpy(weights), strict=True):
    axis.imshow(picture.T, aspect="auto", cmap="Blues", vmin=0)
    axis.set(xlabel="position in the source", ylabel="slot")
plt.show()

"""
## What decoding costs

A decoder that writes one token at a time keeps the keys and values of its
cross-attention. In float32, these take `2 * layers * positions * width * 4` bytes for
each source:
"""

print("source tokens   all states, KiB   slots, KiB")
for length in (40, 200, 1_000, 5_000):
    kib = [2 * 2 * positions * width * 4 / 1024 for positions in (length, num_slots)]
    print(f"{length:13,}{kib[0]:18,.0f}{kib[1]:13,.0f}")

"""
The products of a decoder step with keys and values shrink by the same ratio.

## When to use it

- **Long sources and many decoder steps.** For short sources, writing the slots costs
  more than reading them saves.
- **Sources that can be summed up in stretches.** Slots are a bottleneck. Here, a slot
  holds up to four tokens, and the model with slots learns more slowly.
- **Not for causal self-attention.** The slots are written when the whole source is
  known.

Try `num_slots = 20`, or leave out the learned part of the weights.
"""
