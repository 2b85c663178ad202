"""Efficient Attention using a Fixed-Size Memory Representation (Britz, Guan and Luong, 2017), in one file of Keras.

python scripts/minimal.py    # memory attention: 97 BLEU, in two to three minutes on one CPU core
python scripts/minimal.py --attention bahdanau --steps 500    # more than 99 BLEU, in one minute

Numbers of equations are the paper's. Letters in shapes:

  B  pairs in a batch               D  width of a source state, 2U
  S  length of the source           U  width of the decoder's state
  T  length of the target           K  number of slots
"""

import argparse
import time

if __name__ == "__main__":  # before TensorFlow is imported, which takes seconds
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attention", choices=["memory", "bahdanau"], default="memory")
    parser.add_argument("--slots", type=int, default=32, help="K, of memory attention")
    for name in ("--encoder_scoring", "--decoder_scoring"):
        parser.add_argument(name, choices=["softmax", "sigmoid"], default="softmax", help="of memory attention")
    parser.add_argument("--position_encodings", action="store_true", help="with memory attention")
    parser.add_argument("--max_length", type=int, default=20, help="of a source, in symbols")
    parser.add_argument("--steps", type=int, default=2000, help="training steps")
    args = parser.parse_args()

import numpy as np
import sacrebleu
import tensorflow as tf
from tensorflow.keras import layers

# 1. The problem: copy a sequence of symbols (section 4.1 of the paper). The source is the target, too.

PAD, BOS, EOS, FIRST_SYMBOL = 0, 1, 2, 3  # padding, begin and end of a sequence, the first of 20 symbols
VOCABULARY = FIRST_SYMBOL + 20


def draw_sequences(number, max_length, random):
    """Returns random sequences [number, max_length + 1], each with its end and padding; lengths are 0 to max_length."""
    lengths = random.integers(0, max_length + 1, [number, 1])
    symbols = random.integers(FIRST_SYMBOL, VOCABULARY, [number, max_length + 1])
    positions = np.arange(max_length + 1)
    ends = np.where(positions == lengths, EOS, PAD)
    return tf.constant(np.where(positions < lengths, symbols, ends), tf.int32)


# 2. Standard attention. Each decoder step compares the decoder's state, the query, with all S source states.
#
# Both mechanisms have two methods: `memorize` is called once per source, `read` in each decoder step.


class BahdanauAttention(layers.Layer):
    """Reads a weighted mean of the source states, which are scored as by Bahdanau et al. (2015)."""

    def __init__(self, units):
        super().__init__()
        self.W_q = layers.Dense(units)  # with a bias
        self.W_k = layers.Dense(units, use_bias=False)
        self.v = self.add_weight(name="v", shape=[units])

    def memorize(self, states, mask):
        """Keeps the source states [B, S, D] as they are; `mask` [B, S] is false for padding."""
        keys = self.W_k(states)  # [B, S, U]
        return states, keys, mask

    def read(self, queries, memory):
        """Returns contexts [B, T, D] for queries [B, T, U]."""
        states, keys, mask = memory
        hidden = tf.tanh(self.W_q(queries)[:, :, None] + keys[:, None])  # [B, T, S, U]
        scores = tf.reduce_sum(self.v * hidden, -1)  # [B, T, S], score(h, s_t) = v . tanh(W_q h + W_k s_t)
        scores = tf.where(mask[:, None], scores, -1e9)  # padding gets the weight 0
        a = tf.nn.softmax(scores)  # [B, T, S], Eq. 2: a = softmax_t(score(h, s_t))
        return tf.matmul(a, states)  # [B, T, D], Eq. 1: c = sum_t a_t s_t


# 3. Memory attention. The source is written into K slots once; a decoder step reads only these.

SCORINGS = {"softmax": tf.nn.softmax, "sigmoid": tf.sigmoid}  # of K logits; the softmax runs over the slots


class MemoryAttention(layers.Layer):
    """Reads a weighted sum of K slots, each of which is a weighted sum of the source states.

    Position encodings need `max_length`, N, the length of the longest source; None means that there are none.
    """

    def __init__(self, num_slots, encoder_scoring="softmax", decoder_scoring="softmax", max_length=None):
        super().__init__()
        self.W_alpha = layers.Dense(num_slots, use_bias=False)
        self.W_beta = layers.Dense(num_slots, use_bias=False)
        self.encoder_scoring, self.decoder_scoring = SCORINGS[encoder_scoring], SCORINGS[decoder_scoring]
        self.num_slots, self.max_length = num_slots, max_length

    def memorize(self, states, mask):
        """Returns the slots [B, K, D] for source states [B, S, D]; `mask` [B, S] is false for padding."""
        is_real = tf.cast(mask, tf.float32)[:, :, None]  # [B, S, 1]
        logits = self.W_alpha(states)  # [B, S, K]
        if self.max_length:
            logits *= self.position_encodings(is_real)  # Eq. 9: alpha_t = softmax(W_alpha s_t o l_t)
        alpha = self.encoder_scoring(logits)  # [B, S, K], Eq. 5: alpha_t = softmax(W_alpha s_t)
        alpha *= is_real  # padding adds nothing
        return tf.matmul(alpha, states, transpose_a=True)  # [B, K, D], Eqs. 4 and 8: C = sum_t alpha_t s_t^T

    def read(self, queries, slots):
        """Returns contexts [B, T, D] for queries [B, T, U]."""
        beta = self.decoder_scoring(self.W_beta(queries))  # [B, T, K], Eq. 7: beta = softmax(W_beta h)
        return tf.matmul(beta, slots)  # [B, T, D], Eq. 6: c = sum_k beta_k C_k

    def position_encodings(self, is_real):
        """Returns l [B, S, K] of Eq. 10. The first slots prefer the beginning of the source, the last ones its end."""
        k = tf.range(1, self.num_slots + 1, dtype=tf.float32) / self.num_slots  # [K], k / K
        t = tf.range(1, tf.shape(is_real)[1] + 1)[:, None]
        t = tf.cast(tf.minimum(t, self.max_length), tf.float32) / self.max_length  # [S, 1], t / N
        encodings = (1 - k) * (1 - t) + k * t  # [S, K], Eq. 10, where k is k / K, and t is t / N
        encodings *= is_real  # [B, S, K]
        return tf.math.divide_no_nan(encodings, tf.reduce_sum(encodings, 1, keepdims=True))  # sum to 1 over the source


# 4. The model, smaller than the paper's. The decoder starts from zeros: it knows the source by attention alone. It does
# not read the context of the step before, so in training, attention answers the queries of all T steps at once.

UNITS = 128  # U


class Model(tf.keras.Model):
    """A bidirectional LSTM reads the source, and an LSTM with attention writes the target."""

    def __init__(self, attention):
        super().__init__()
        self.source_embedding = layers.Embedding(VOCABULARY, UNITS)
        self.encoder = layers.Bidirectional(layers.LSTM(UNITS, return_sequences=True))
        self.attention = attention
        self.target_embedding = layers.Embedding(VOCABULARY, UNITS)
        self.decoder = layers.LSTM(UNITS, return_sequences=True, return_state=True)
        self.logits = layers.Dense(VOCABULARY)

    @tf.function
    def encode(self, source):
        """Returns the memory of a source [B, S]."""
        mask = source != PAD
        states = self.encoder(self.source_embedding(source), mask=mask)  # [B, S, D]
        return self.attention.memorize(states, mask)

    @tf.function
    def decode(self, tokens, state, memory):
        """Returns logits of the next tokens [B, T, VOCABULARY] and the decoder's state after the tokens [B, T].

        T is the target's length in training, and 1 in decoding, where each token depends on the one before. A state of
        None means zeros.
        """
        h, *state = self.decoder(self.target_embedding(tokens), initial_state=state)  # [B, T, U]
        c = self.attention.read(h, memory)  # [B, T, D]
        return self.logits(tf.concat([h, c], -1)), state  # Eq. 3: the softmax of these logits


# 5. Training: the decoder reads the target, shifted by one position, and learns to predict the next token.

BATCH_SIZE = 128
LEARNING_RATE = 0.003


def train(model, max_length, num_steps):
    """Trains on new random sequences in each step, and prints validation BLEU ten times."""
    random = np.random.default_rng(1)
    validation = draw_sequences(1000, max_length, np.random.default_rng(2))
    learning_rate = tf.keras.optimizers.schedules.PolynomialDecay(LEARNING_RATE, num_steps)  # to almost 0, linearly
    optimizer = tf.keras.optimizers.Adam(learning_rate)

    @tf.function
    def train_step(source, target):
        tokens = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=BOS)  # [B, T]
        with tf.GradientTape() as tape:
            logits, _ = model.decode(tokens, None, model.encode(source))  # [B, T, VOCABULARY]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)  # [B, T]
            loss = tf.reduce_mean(losses[target != PAD])
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 5.0)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    start = time.perf_counter()
    for step in range(1, num_steps + 1):
        source = draw_sequences(BATCH_SIZE, max_length, random)
        loss = train_step(source, target=source)  # a copy
        if step % max(1, num_steps // 10) == 0:
            seconds = time.perf_counter() - start
            print(f"step {step}, {seconds:.0f} s: loss {loss:.3f}, validation BLEU {bleu(model, validation):.1f}")


# 6. Decoding: the most probable token is written, and read in the next step.


def greedy_decode(model, source, num_steps):
    """Returns the tokens that the model writes for a source [B, S], as [B, num_steps]."""
    memory = model.encode(source)
    tokens, state, written = tf.fill([len(source), 1], BOS), None, []
    for _ in range(num_steps):
        logits, state = model.decode(tokens, state, memory)  # [B, 1, VOCABULARY]
        tokens = tf.argmax(logits, -1, output_type=tf.int32)  # [B, 1]
        written.append(tokens)
    return tf.concat(written, 1)


def bleu(model, source):
    """Returns the BLEU of the model's copies of a source."""
    copies = greedy_decode(model, source, source.shape[1])
    return sacrebleu.corpus_bleu(texts(copies), [texts(source)], tokenize="none", force=True).score


def texts(sequences):
    """Returns a line for each sequence: its symbols before the end, as words."""
    rows = [row + [EOS] for row in sequences.numpy().tolist()]
    return [" ".join(map(str, row[: row.index(EOS)])) for row in rows]


def milliseconds_per_step(model, source_length):
    """Returns the time of a decoder step for 32 sources. It depends on no values, so the states are random."""
    states, mask = tf.random.normal([32, source_length, 2 * UNITS]), tf.ones([32, source_length], tf.bool)
    memory = model.attention.memorize(states, mask)
    tokens, state = tf.fill([32, 1], BOS), [tf.zeros([32, UNITS])] * 2
    model.decode(tokens, state, memory)  # the first call makes the graph
    start = time.perf_counter()
    for _ in range(20):
        _, state = model.decode(tokens, state, memory)
    state[0].numpy()  # waits for the result
    return (time.perf_counter() - start) / 20 * 1000


def main(args):
    tf.keras.utils.set_random_seed(1)
    if args.attention == "bahdanau":
        attention = BahdanauAttention(UNITS)
    else:
        longest = args.max_length + 1 if args.position_encodings else None  # with the end
        attention = MemoryAttention(args.slots, args.encoder_scoring, args.decoder_scoring, longest)
    model = Model(attention)
    train(model, args.max_length, args.steps)

    test = draw_sequences(1000, args.max_length, np.random.default_rng(3))
    start = time.perf_counter()
    greedy_decode(model, test, test.shape[1])
    seconds = time.perf_counter() - start
    print(f"{args.attention}: BLEU {bleu(model, test):.1f} on 1,000 new sequences, decoded in {seconds:.2f} s")
    for length in (20, 200, 2000):
        print(f"a decoder step with {length} source states: {milliseconds_per_step(model, length):.1f} ms")


if __name__ == "__main__":
    main(args)
