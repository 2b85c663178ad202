"""Turns recordings into log-mel features: the logarithm of the energy in bands of frequency, 100 times a second."""

import functools
import math
import re
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from memattn.errors import ConfigError, DataError, reason

RATE = 16_000  # samples a second, to which recordings are resampled
MEL_BANDS = 80
WINDOW, HOP = 400, 160  # samples: 25 ms every 10 ms
_FFT = 512
_LOWEST, _HIGHEST = 20.0, 7_600.0  # Hz
_STREAMED = 0x7F00_0000  # bytes; headers of streamed files state more, since their writers did not know the size
# What libsndfile logs of a WAV, AIFF or AU file: bytes of samples that its header states, and that are there.
_SIZES = re.compile(r"^ *(?:data|SSND|Data Size) *: (\d+) \(should be (\d+)\)", re.MULTILINE)
_CANCELLED = 0.01  # fraction of the channels' energy; averages of unrelated channels have more
_LEAST_ENERGY = 1e-8  # about the energy of rounding to 16 bits


class Recording(NamedTuple):
    """The features of a recording, and what is known of its samples."""

    features: np.ndarray  # float32 [S, MEL_BANDS]
    seconds: float
    is_mixed: bool  # several channels were averaged
    is_resampled: bool  # its rate was not RATE


@functools.cache
def packages() -> tuple[Any, Any]:
    """Returns the modules soundfile and soxr. Raises ConfigError if one, or libsndfile, is not installed."""
    try:
        import soundfile
        import soxr
    except (ImportError, OSError) as error:  # OSError: soundfile is there, but not libsndfile
        raise ConfigError(
            f"{reason(error)}; speech needs the extra `speech`: pip install -e '.[speech]' in the clone; "
            "if only libsndfile is missing, install that library"
        ) from error
    return soundfile, soxr


def read(path: str, max_seconds: float) -> Recording:
    """Reads a WAV or FLAC file, or any other that libsndfile knows.

    Several channels are averaged. If they cancel each other, as channels of opposite phase do, the loudest is used.

    Raises DataError, whose message does not name the file, for a recording that is missing, broken, cut short, shorter
    than a window, or longer than `max_seconds`.
    """
    soundfile, soxr = packages()
    try:
        with open(path, "rb") as content, soundfile.SoundFile(content) as file:
            file.seekable = lambda: False  # otherwise soundfile seeks, which fails at the end of some streamed files
            rate, log = file.samplerate, file.extra_info
            samples = file.read(math.ceil(max_seconds * rate) + 1, "float32", always_2d=True)
    except OSError as error:
        raise DataError(f"unreadable: {error.strerror}") from error
    except soundfile.SoundFileError as error:
        raise DataError(f"broken, or no audio: {getattr(error, 'error_string', None) or error}") from error
    if len(samples) / rate > max_seconds:
        raise DataError(f"longer than {max_seconds:g} s")
    for stated, size in _SIZES.findall(log):
        if int(size) < int(stated) < _STREAMED:
            raise DataError(f"cut short: {int(size):,} of {int(stated):,} bytes")
    if not np.isfinite(samples).all():
        raise DataError("broken: it has samples that are not finite")
    mono, energies = samples.mean(1), np.square(samples).sum(0)
    if np.square(mono).sum() < _CANCELLED * energies.mean():
        mono = samples[:, energies.argmax()]
    if rate != RATE:
        mono = soxr.resample(mono, rate, RATE)
    if len(mono) < WINDOW:
        raise DataError(f"{len(mono) / RATE * 1000:.3g} ms long; the least is {WINDOW / RATE * 1000:g} ms")
    return Recording(log_mel(mono).numpy(), len(samples) / rate, samples.shape[1] > 1, rate != RATE)


@functools.partial(tf.function, input_signature=[tf.TensorSpec([None], tf.float32)], autograph=False)
def log_mel(samples: tf.Tensor) -> tf.Tensor:
    """Returns features, float32 [S, MEL_BANDS], of n samples at RATE, where S = 1 + (n - WINDOW) // HOP."""
    spectrum = tf.abs(tf.signal.stft(samples, WINDOW, HOP, _FFT)) ** 2
    mel = tf.signal.linear_to_mel_weight_matrix(MEL_BANDS, _FFT // 2 + 1, RATE, _LOWEST, _HIGHEST)
    return tf.math.log(tf.maximum(spectrum @ mel, _LEAST_ENERGY))
