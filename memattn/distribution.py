"""The devices that training runs on."""

import tensorflow as tf

STRATEGIES = {
    "none": tf.distribute.get_strategy,
    "mirrored": tf.distribute.MirroredStrategy,
    "auto": lambda: (
        tf.distribute.MirroredStrategy()
        if len(tf.config.list_logical_devices("GPU")) > 1
        else tf.distribute.get_strategy()
    ),
}
