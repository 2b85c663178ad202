"""Worker: OpenNMT-tf's LSTM encoder, attentional decoder and beam search."""

import opennmt
import tensorflow as tf
import tensorflow_addons as tfa
import worker
from opennmt.utils.decoding import BeamSearch

work = worker.options()
tf.config.threading.set_intra_op_parallelism_threads(work.threads)
tf.config.threading.set_inter_op_parallelism_threads(work.threads)
U, V = work.units, work.vocabulary
bridge = opennmt.layers.DenseBridge
encoder = opennmt.encoders.LSTMEncoder(2, U, bidirectional=True, dropout=0.0)
decoder = opennmt.decoders.AttentionalRNNDecoder(
    2, U, bridge_class=bridge, attention_mechanism_class=tfa.seq2seq.BahdanauAttention, dropout=0.0
)
decoder.initialize(vocab_size=V)
embeddings = [tf.Variable(tf.random.uniform([V, U], -0.1, 0.1)) for _ in range(2)]
versions = {"OpenNMT-tf": opennmt.__version__, "tensorflow": tf.__version__, "tensorflow-addons": tfa.__version__}


def encode(source, lengths, training):
    return encoder(tf.nn.embedding_lookup(embeddings[0], source), sequence_length=lengths, training=training)


def search(source, lengths):
    states, final, lengths = encode(source, lengths, False)
    states, final, lengths = tf.nest.map_structure(
        lambda tensor: tfa.seq2seq.tile_batch(tensor, work.beam), (states, final, lengths)
    )
    result = decoder.dynamic_decode(
        embeddings[1],
        tf.fill([tf.shape(source)[0]], worker.BOS),
        end_id=worker.EOS,
        initial_state=decoder.initial_state(memory=states, memory_sequence_length=lengths, initial_state=final),
        decoding_strategy=BeamSearch(work.beam, length_penalty=1.0),
        maximum_iterations=work.length,
        minimum_iterations=work.length,
    )
    return result.ids[:, 0]


if work.task == "decode":
    ids = tf.TensorSpec([None, None], tf.int32)
    compiled = tf.function(search, input_signature=[ids, tf.TensorSpec([None], tf.int32)])

    def decode(ids, lengths):
        return compiled(tf.constant(ids, tf.int32), tf.constant(lengths, tf.int32)).numpy()

    worker.serve_decoding(work, versions, "tf.function, dynamic_decode", decode)
else:
    source, target = (tf.constant(side, tf.int32) for side in worker.training_batch(work))

    def loss_of(source, target):
        lengths = tf.fill([tf.shape(source)[0]], tf.shape(source)[1])
        shifted = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=worker.BOS)
        states, final, _ = encode(source, lengths, True)
        state = decoder.initial_state(memory=states, memory_sequence_length=lengths, initial_state=final)
        inputs = tf.nn.embedding_lookup(embeddings[1], shifted)
        logits, _, _ = decoder(inputs, lengths, state=state, training=True)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits))

    loss_of(source[:2], target[:2])  # makes the weights
    weights = [*encoder.trainable_variables, *decoder.trainable_variables, *embeddings]
    optimizer = tf.keras.optimizers.legacy.Adam(1e-3)

    @tf.function
    def update():
        with tf.GradientTape() as tape:
            loss = loss_of(source, target)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))  # noqa: B905 (AutoGraph knows no strict)
        return loss

    worker.serve_training(work, versions, "tf.function", lambda: float(update()))
