"""Worker: measures the rate of matrix products with the threads of the systems, for lower bounds of times."""

import memattn.cli  # noqa: F401  isort: skip (sets TensorFlow's logging before it is imported)

import tensorflow as tf
import worker
from benchmarks import lower_bounds

work = worker.options()
tf.config.threading.set_intra_op_parallelism_threads(work.threads)
tf.config.threading.set_inter_op_parallelism_threads(work.threads)
rate = lower_bounds.multiply_adds_per_second(work.rows, work.inner, work.columns)
worker.serve({"tensorflow": tf.__version__}, "", lambda: None, multiply_adds_per_second=rate)
