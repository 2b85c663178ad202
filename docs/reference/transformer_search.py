"""Beam search and sampling with a small Transformer decoder, whose state is the cache of its keys and values.

The cache has room for the longest hypothesis, because XLA needs fixed shapes.

python docs/reference/transformer_search.py
"""

import tensorflow as tf

import memattn

V, D, HEADS, LONGEST, START, END = 50, 32, 4, 12, 1, 2
layers = tf.keras.layers


def attend(query, keys, values, mask, equation):
    """Multi-head attention of queries [B, k, D]; the last axis is split into heads."""
    inputs = (query, keys, values)
    query, keys, values = (tf.reshape(x, [*x.shape[:-1], HEADS, D // HEADS]) for x in inputs)
    weights = tf.einsum(f"bkhd,{equation}->bkhm", query, keys) * (D // HEADS) ** -0.5
    weights = tf.nn.softmax(tf.where(mask, weights, -1e9))
    return tf.reshape(tf.einsum(f"bkhm,{equation}->bkhd", weights, values), [*query.shape[:2], D])


class TransformerDecoder(tf.Module):
    """One pre-norm layer: self-attention, attention to the source, feed-forward."""

    def __init__(self):
        super().__init__()
        self.embedding, self.positions = layers.Embedding(V, D), layers.Embedding(LONGEST, D)
        # Four layers each: query, key, value, output.
        self.to_tokens, self.to_source = ([layers.Dense(D) for _ in range(4)] for _ in range(2))
        self.norms = [layers.LayerNormalization() for _ in range(4)]
        self.wide, self.narrow, self.output = layers.Dense(4 * D, "relu"), layers.Dense(D), layers.Dense(V)

    def initial_state(self, batch, k):
        cache = tf.zeros([batch, k, LONGEST, D])
        return {"keys": cache, "values": cache, "time": tf.zeros([batch, k], tf.int32)}

    def stepper(self, source, mask):
        """Returns the step that reads encoder states [B, S, D]; `mask` [B, S] is false for padding."""
        source_keys, source_values = self.to_source[1](source), self.to_source[2](source)  # once a source

        def step(tokens, state):
            time = state["time"]  # [B, k], all equal
            x = self.embedding(tokens) + self.positions(time)  # [B, k, D]
            normed = self.norms[0](x)
            here = tf.one_hot(time, LONGEST)[..., None]  # [B, k, LONGEST, 1]
            keys = state["keys"] + here * self.to_tokens[1](normed)[:, :, None]
            values = state["values"] + here * self.to_tokens[2](normed)[:, :, None]
            past = tf.range(LONGEST) <= time[:, :, None, None]  # [B, k, 1, LONGEST]
            x += self.to_tokens[3](attend(self.to_tokens[0](normed), keys, values, past, "bkmhd"))
            query = self.to_source[0](self.norms[1](x))
            x += self.to_source[3](attend(query, source_keys, source_values, mask[:, None, None], "bmhd"))
            x += self.narrow(self.wide(self.norms[2](x)))
            return self.output(self.norms[3](x)), {"keys": keys, "values": values, "time": time + 1}

        return step


decoder, encoder = TransformerDecoder(), layers.GRU(D, return_sequences=True)
source = tf.constant([[4, 5, 6, 7], [8, 9, 0, 0]])
states, mask = encoder(decoder.embedding(source)), tf.not_equal(source, 0)
limits = tf.fill([2], LONGEST)


@tf.function(jit_compile=True)
def search(states, mask):
    step, state = decoder.stepper(states, mask), decoder.initial_state(2, 5)
    options = {"beam_size": 5, "n_best": 3, "length_penalty_weight": 0.6}
    ends = {"start": START, "end": END, "max_lengths": limits, "max_steps": LONGEST}
    return memattn.beam_search(step, state, **options, **ends)


hypotheses = search(states, mask)  # tokens [2, 3, LONGEST], lengths [2, 3], scores [2, 3]
print(hypotheses.tokens[:, 0].numpy())

uniforms = tf.random.stateless_uniform([LONGEST, 2, 5], seed=[1, 2])  # [steps, B, n]
step, state = decoder.stepper(states, mask), decoder.initial_state(2, 5)
options = {"temperature": 0.8, "top_k": 10, "top_p": 0.9}
samples = memattn.sample(step, state, uniforms=uniforms, max_lengths=limits, start=START, end=END, **options)
