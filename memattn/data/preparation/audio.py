"""Turns recordings into log-mel features: the logarithm of the energy in bands of frequency, 100 times a second."""

import contextlib
import functools
import wave
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from memattn import reading
from memattn.errors import ConfigError, DataError, reason

RATE = 16_000  # samples a second, to which recordings are resampled
MEL_BANDS = 80
WINDOW, HOP = 400, 160  # samples: 25 ms every 10 ms
_FFT = 512
_LOWEST, _HIGHEST = 20.0, 7_600.0  # Hz
_STREAMED = 0x7FFF_0000  # bytes; a header of a streamed WAV file states more, since its writer did not know the size
_LEAST_ENERGY = 1e-8  # about the energy of rounding to 16 bits


class Recording(NamedTuple):
    """The features of a recording.

    Attributes:
      features: float32 [S, MEL_BANDS].
      seconds: length of the recording.
      is_mixed: whether several channels were averaged.
      is_resampled: whether its rate was not RATE.
    """

    features: np.ndarray
    seconds: float
    is_mixed: bool
    is_resampled: bool


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

    Raises DataError, whose message does not name the file, for a recording that is missing, broken, shorter than a
    window, or longer than `max_seconds`.
    """
    soundfile, soxr = packages()
    _check_readable(path)
    try:
        with soundfile.SoundFile(path) as file:
            seconds, rate, channels = file.frames / file.samplerate, file.samplerate, file.channels
            if seconds > max_seconds:
                raise DataError(f"{seconds:,.1f} s long, more than {max_seconds:g} s")
            samples = file.read(dtype="float32", always_2d=True)
            expected = max(file.frames, _frames_of_header(path))
            if len(samples) < expected:
                raise DataError(f"cut short: {len(samples):,} of {expected:,} samples")
    except (soundfile.SoundFileError, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"broken, or no audio: {getattr(error, 'error_string', None) or error}") from error
    if not np.isfinite(samples).all():
        raise DataError("broken: it has samples that are not finite")
    mono = samples.mean(1)
    if rate != RATE:
        mono = soxr.resample(mono, rate, RATE)
    if len(mono) < WINDOW:
        raise DataError(f"{len(mono) / RATE * 1000:.0f} ms long; the least is {WINDOW / RATE * 1000:.0f} ms")
    return Recording(log_mel(mono), seconds, channels > 1, rate != RATE)


def _frames_of_header(path: str) -> int:
    """Returns the number of frames that the header of a WAV file states; 0 for other files and streamed recordings.

    libsndfile lowers the number to what a file that was cut short still has.
    """
    with contextlib.suppress(wave.Error, EOFError), wave.open(path) as file:
        frames = file.getnframes()
        return frames if frames * file.getnchannels() * file.getsampwidth() < _STREAMED else 0
    return 0


def _check_readable(path: str) -> None:
    """Raises DataError for a file that is missing, empty, or not a regular file such as a named pipe."""
    try:
        with reading.open_regular(path) as file:
            is_empty = not file.read(1)
    except OSError as error:
        raise DataError(f"unreadable: {error.strerror}") from error
    if is_empty:
        raise DataError("an empty file")


def log_mel(samples: np.ndarray) -> np.ndarray:
    """Returns features, float32 [S, MEL_BANDS], of n samples at RATE, where S = 1 + (n - WINDOW) // HOP."""
    return _log_mel(tf.constant(samples, tf.float32)).numpy()


@functools.partial(tf.function, input_signature=[tf.TensorSpec([None], tf.float32)], autograph=False)
def _log_mel(samples: tf.Tensor) -> tf.Tensor:
    spectrum = tf.abs(tf.signal.stft(samples, WINDOW, HOP, _FFT)) ** 2
    mel = tf.signal.linear_to_mel_weight_matrix(MEL_BANDS, _FFT // 2 + 1, RATE, _LOWEST, _HIGHEST)
    return tf.math.log(tf.maximum(spectrum @ mel, _LEAST_ENERGY))
