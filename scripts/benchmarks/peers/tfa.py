"""Worker: tensorflow-addons' `tfa.seq2seq` (AttentionWrapper, BahdanauAttention, BeamSearchDecoder)."""

import tensorflow as tf
import tensorflow_addons as tfa
import worker

work = worker.options()
tf.config.threading.set_intra_op_parallelism_threads(work.threads)
tf.config.threading.set_inter_op_parallelism_threads(work.threads)
U, V = work.units, work.vocabulary
layers = tf.keras.layers


class Model(tf.Module):
    """Encoder and decoder of memattn's shape, from layers of Keras and tensorflow-addons."""

    def __init__(self):
        super().__init__()
        self.source_embedding, self.target_embedding = layers.Embedding(V, U), layers.Embedding(V, U)
        self.lower = layers.Bidirectional(layers.LSTM(U, return_sequences=True))
        self.upper = layers.Bidirectional(layers.LSTM(U, return_sequences=True, return_state=True))
        self.bridge = [layers.Dense(U) for _ in range(4)]
        cell = layers.StackedRNNCells([layers.LSTMCell(U), layers.LSTMCell(U)])
        self.attention = tfa.seq2seq.BahdanauAttention(U)
        self.cell = tfa.seq2seq.AttentionWrapper(cell, self.attention, attention_layer_size=U)
        self.output = layers.Dense(V)

    def encode(self, source, lengths):
        mask = tf.sequence_mask(lengths, tf.shape(source)[1])
        states = self.lower(self.source_embedding(source), mask=mask)
        states, *final = self.upper(states, mask=mask)
        hidden, memory = tf.concat(final[::2], -1), tf.concat(final[1::2], -1)
        bridges = iter(self.bridge)
        return states, [[next(bridges)(hidden), next(bridges)(memory)] for _ in range(2)]

    def start(self, source, lengths, beam):
        states, cells = self.encode(source, lengths)
        if beam > 1:
            states, lengths, cells = tf.nest.map_structure(
                lambda tensor: tfa.seq2seq.tile_batch(tensor, beam), (states, lengths, cells)
            )
        self.attention.setup_memory(states, memory_sequence_length=lengths)
        first = self.cell.get_initial_state(batch_size=tf.shape(states)[0], dtype=tf.float32)
        return first.clone(cell_state=tuple(cells))

    def loss(self, source, target):
        lengths = tf.fill([tf.shape(source)[0]], tf.shape(source)[1])
        shifted = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=worker.BOS)
        decoder = tfa.seq2seq.BasicDecoder(self.cell, tfa.seq2seq.sampler.TrainingSampler())
        outputs, _, _ = decoder(
            self.target_embedding(shifted), initial_state=self.start(source, lengths, 1), sequence_length=lengths
        )
        logits = self.output(outputs.rnn_output)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits))

    def search(self, source, lengths):
        decoder = tfa.seq2seq.BeamSearchDecoder(
            self.cell,
            work.beam,
            embedding_fn=self.target_embedding,
            output_layer=self.output,
            maximum_iterations=work.length,
            length_penalty_weight=1.0,
        )
        outputs, _, _ = decoder(
            None,
            start_tokens=tf.fill([tf.shape(source)[0]], worker.BOS),
            end_token=worker.EOS,
            initial_state=self.start(source, lengths, work.beam),
        )
        return outputs.predicted_ids[:, :, 0]


model = Model()
versions = {"tensorflow-addons": tfa.__version__, "tensorflow": tf.__version__}
if work.task == "decode":
    ids = tf.TensorSpec([None, None], tf.int32)
    search = tf.function(model.search, input_signature=[ids, tf.TensorSpec([None], tf.int32)])

    def decode(ids, lengths):
        return search(tf.constant(ids, tf.int32), tf.constant(lengths, tf.int32)).numpy()

    decode(*(side[-2:] for side in worker.batches(work)[-1]))  # makes the weights
    bias = model.output.bias.numpy()
    bias[worker.EOS] = worker.NO_END
    model.output.bias.assign(bias)
    worker.serve_decoding(work, versions, "tf.function", decode)
else:
    source, target = (tf.constant(side, tf.int32) for side in worker.training_batch(work))
    model.loss(source[:2], target[:2])  # makes the weights
    weights = model.trainable_variables
    optimizer = tf.keras.optimizers.legacy.Adam(1e-3)

    @tf.function
    def update():
        with tf.GradientTape() as tape:
            loss = model.loss(source, target)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))  # noqa: B905 (AutoGraph knows no strict)
        return loss

    worker.serve_training(work, versions, "tf.function", lambda: float(update()))
