"""Turns recordings into log-mel features: the logarithm of the energy in bands of frequency, 100 times a second."""

import contextlib
import functools
import math
import mmap
import os
import re
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from memattn.errors import ConfigError, DataError, reason

RATE = 16_000  # samples a second, to which recordings are resampled
MEL_BANDS = 80
WINDOW, HOP = 400, 160  # samples: 25 ms every 10 ms
_FFT = 512
_LOWEST, _HIGHEST = 20.0, 7_600.0  # Hz
_BLOCK = 1 << 16  # samples that are read at a time
_UNKNOWN = 2**63 - 1  # number of samples, in libsndfile, of a stream whose header does not state it
_STREAMED = 0x7F00_0000  # bytes; headers of streamed files state more, since their writers did not know the size
# What libsndfile logs of a WAV, AIFF or AU file: bytes of samples that its header states, and that are there.
_SIZES = re.compile(r"^ *(?:data|SSND|Data Size) *: (\d+) \(should be (\d+)\)", re.MULTILINE)
_CANCELLED = 0.01  # fraction of the channels' energy; averages of unrelated channels have more
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
    """Reads a WAV or FLAC file, or any other that libsndfile knows, to its end, whatever length its header states.

    Several channels are averaged. If they cancel each other, as channels of opposite phase do, the loudest is used.

    Raises DataError, whose message does not name the file, for a recording that is missing, broken, cut short, shorter
    than a window, or longer than `max_seconds`.
    """
    soundfile, soxr = packages()
    _check_readable(path)
    try:
        with _opened(path) as file:
            samples, rate = _samples(file, max_seconds), file.samplerate
    except (soundfile.SoundFileError, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"broken, or no audio: {getattr(error, 'error_string', None) or error}") from error
    if not np.isfinite(samples).all():
        raise DataError("broken: it has samples that are not finite")
    mono, energies = samples.mean(1), np.square(samples).sum(0)
    if np.square(mono).sum() < _CANCELLED * energies.mean():
        mono = samples[:, energies.argmax()]
    if rate != RATE:
        mono = soxr.resample(mono, rate, RATE)
    if len(mono) < WINDOW:
        raise DataError(f"{len(mono) / RATE * 1000:.3g} ms long; the least is {WINDOW / RATE * 1000:g} ms")
    return Recording(log_mel(mono), len(samples) / rate, samples.shape[1] > 1, rate != RATE)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Yields a SoundFile that can be read to the end of the recording. Raises DataError if libsndfile cannot do so."""
    soundfile, _ = packages()
    with soundfile.SoundFile(path) as file:
        if file.subtype.startswith("MPEG") and _has_estimated_length(path, file.frames):
            raise DataError("of unknown length: MP3 without a Xing or Info header; convert it to WAV or FLAC")
        if file.frames or file.format not in ("WAV", "WAVEX"):
            yield file
            return
    with open(path, "rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_COPY) as content:
        content[4:8] = (8).to_bytes(4, "little")  # size of the file; only with 8 does libsndfile read data of size 0
        with soundfile.SoundFile(content) as file:
            yield file


def _has_estimated_length(path: str, frames: int) -> bool:
    """Returns whether libsndfile estimates the number of `frames` of an MP3 file by its size.

    It reads no more than these. If it estimates them, it gives another number for the file without its last bytes.
    """
    soundfile, _ = packages()
    with open(path, "rb") as file, tempfile.NamedTemporaryFile(suffix=".mp3") as part:
        part.write(file.read(os.path.getsize(path) - 16))
        part.flush()
        return soundfile.info(part.name).frames != frames


def _samples(file: Any, max_seconds: float) -> np.ndarray:
    """Returns the samples [n, channels] of a SoundFile. Raises DataError if it is cut short, or too long."""
    file.seekable = lambda: False  # otherwise soundfile seeks, which fails at the end of a stream of unknown length
    most, length = math.ceil(max_seconds * file.samplerate) + 1, 0
    blocks = [np.zeros([0, file.channels], np.float32)]
    while length < most and len(block := file.read(min(_BLOCK, most - length), dtype="float32", always_2d=True)):
        blocks.append(block)
        length += len(block)
    if length / file.samplerate > max_seconds:
        raise DataError(f"longer than {max_seconds:g} s")
    if length < file.frames < _UNKNOWN:
        raise DataError(f"cut short: {length:,} of {file.frames:,} samples")
    for stated, size in _SIZES.findall(file.extra_info):  # libsndfile has lowered `frames`
        if int(size) < int(stated) < _STREAMED:
            raise DataError(f"cut short: {int(size):,} of {int(stated):,} bytes")
    return np.concatenate(blocks)


def _check_readable(path: str) -> None:
    """Raises DataError for a file that is missing or cannot be read; libsndfile does not say why."""
    try:
        open(path, "rb").close()
    except OSError as error:
        raise DataError(f"unreadable: {error.strerror}") from error


def log_mel(samples: np.ndarray) -> np.ndarray:
    """Returns features, float32 [S, MEL_BANDS], of n samples at RATE, where S = 1 + (n - WINDOW) // HOP."""
    return _log_mel(tf.constant(samples, tf.float32)).numpy()


@functools.partial(tf.function, input_signature=[tf.TensorSpec([None], tf.float32)], autograph=False)
def _log_mel(samples: tf.Tensor) -> tf.Tensor:
    spectrum = tf.abs(tf.signal.stft(samples, WINDOW, HOP, _FFT)) ** 2
    mel = tf.signal.linear_to_mel_weight_matrix(MEL_BANDS, _FFT // 2 + 1, RATE, _LOWEST, _HIGHEST)
    return tf.math.log(tf.maximum(spectrum @ mel, _LEAST_ENERGY))
