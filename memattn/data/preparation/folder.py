"""Makes the folder of a prepared corpus, and writes its files. The manifest says what it was made from.

The folder gets its name when everything is done: an interrupted preparation leaves no folder of this name.
"""

import importlib.metadata
import json
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pooch

from memattn import __version__, files, processes
from memattn.data.corpus import MANIFEST, PARTS, VOCABULARY, Part, binary_paths
from memattn.data.sentences import Sentences
from memattn.data.tokenizer import UNITS, Side, SubwordTokenizer, TextSettings
from memattn.data.vocabulary import Vocabulary
from memattn.errors import ConfigError, DataError
from memattn.plain_values import differences

Counts = dict[str, dict[str, int]]  # numbers of the manifest, by split and name
Release = Mapping[str, str | int]  # what the manifest says about the release that text or recordings are from


def make_corpus(
    folder: str,
    settings: dict,
    sources: Mapping[str, Iterable[str]],
    write: Callable[[str], Counts],
    release: Release | None = None,
    shared: Sequence[str] = (),
) -> Counts:
    """Makes the folder unless it is complete, and returns the counts of its manifest.

    Args:
      folder: where the corpus is to be.
      settings: with the source files, they determine the corpus.
      sources: paths of the source files, by split.
      write: writes the corpus, except for its manifest, into a folder, and returns the counts.
      release: what is known of the release that the sources are from; None for the user's own files.
      shared: paths of files of another corpus, which are copied before `write` is called.

    Raises ConfigError if the folder holds something else, RunError if another process is preparing it, OSError.
    """
    folder = os.path.normpath(folder)
    if not os.path.exists(folder):
        files.make_folder(os.path.dirname(folder))
    sources = {**sources, "vocabulary_of": shared} if shared else sources
    described = {split: [{"path": path, **_content(path)} for path in paths] for split, paths in sources.items()}
    inputs = {"settings": settings, "sources": described}
    if os.path.exists(folder):
        return _counts_of_complete(folder, inputs)
    doing = "is preparing it; wait, or use another --folder"
    with processes.locked(f"{folder}.lock", folder, doing):
        if os.path.exists(folder):  # another process has just completed it
            return _counts_of_complete(folder, inputs)
        with files.making_folder(folder) as new:
            for path in shared:
                with open(path, "rb") as file:
                    files.write(os.path.join(new, os.path.basename(path)), file.read())
            counts = write(new)
            manifest = {
                **inputs,
                **({"release": release} if release else {}),
                "counts": counts,
                "files": {name: _content(os.path.join(new, name)) for name in sorted(os.listdir(new))},
                "versions": {
                    "memattn": __version__,
                    "python": platform.python_version(),
                    **{name: importlib.metadata.version(name) for name in ("numpy", "subword-nmt", "sacremoses")},
                },
                "command": processes.command(),
            }
            files.write(os.path.join(new, MANIFEST), json.dumps(manifest, indent=2) + "\n")
    return counts


def learn_units(words: Counter[str], settings: TextSettings, size: int) -> dict[str, str]:
    """Learns merges or a dictionary, and a vocabulary of at most `size` units, from counts of escaped words.

    Returns names and contents of the tokenizer's files and of the vocabulary. Raises DataError for text that BPE has no
    merge for.
    """
    codes, units = UNITS[settings.units].learn(words, size)
    return {**SubwordTokenizer(settings, codes).files(), VOCABULARY: str(Vocabulary(units))}


class SentencesWriter:
    """Writes the sentences of one side of a split in binary form, piece by piece; a context manager."""

    def __init__(self, folder: str, split: str, side: Side, vocabulary_size: int):
        self._paths = binary_paths(folder, split, side)
        self._dtypes = {
            "ids": np.dtype(np.uint16 if vocabulary_size <= 1 << 16 else np.int32),
            "offsets": np.dtype("i8"),
        }
        self._lengths = {"ids": 0, "offsets": 0}
        self.longest = 0  # length of the longest sentence so far

    def __enter__(self) -> "SentencesWriter":
        self._files = {part: open(path, "wb") for part, path in self._paths.items()}  # noqa: SIM115
        for part in PARTS:
            self._write_header(part)
        self._append("offsets", np.zeros(1))
        return self

    def __exit__(self, *_) -> None:
        for part, file in self._files.items():
            with files.naming(self._paths[part]), file:
                file.seek(0)
                self._write_header(part)
                file.flush()
                os.fsync(file.fileno())

    @property
    def tokens(self) -> int:
        """Number of ids so far."""
        return self._lengths["ids"]

    def append(self, sentences: Sentences) -> None:
        """Adds sentences at the end. Raises OSError."""
        self._append("offsets", self.tokens + sentences.offsets[1:])
        self._append("ids", sentences.ids)
        self.longest = max(self.longest, int(sentences.lengths().max(initial=0)))

    def _append(self, part: Part, values: np.ndarray) -> None:
        with files.naming(self._paths[part]):
            self._files[part].write(values.astype(self._dtypes[part]).tobytes())
        self._lengths[part] += len(values)

    def _write_header(self, part: Part) -> None:
        """Writes the header, whose size does not depend on the length: NumPy leaves room for an axis to grow."""
        header = {"descr": self._dtypes[part].str, "fortran_order": False, "shape": (self._lengths[part],)}
        np.lib.format.write_array_header_1_0(self._files[part], header)


def _content(path: str) -> dict[str, str | int]:
    return {"bytes": os.path.getsize(path), "sha256": pooch.file_hash(path)}


def _counts_of_complete(folder: str, inputs: dict) -> Counts:
    """Returns the counts of an existing folder. Raises ConfigError unless it holds the corpus of these inputs."""
    try:
        parts = dict.fromkeys(("settings", "sources", "counts"), dict)
        manifest = files.read_json(os.path.join(folder, MANIFEST), parts)
    except (OSError, DataError) as error:
        raise ConfigError(f"{folder}: exists, but is not a prepared corpus ({error}); use another") from error
    expected = inputs["settings"]
    # A manifest of an earlier version may have settings that are gone.
    stored = {name: value for name, value in manifest["settings"].items() if name in expected}
    if stored != expected or _checksums(manifest) != _checksums(inputs):
        differing = ", ".join(map(str, differences(stored, expected))) or "other files"
        raise ConfigError(f"{folder}: holds another corpus ({differing}); use another folder, or remove it")
    return manifest["counts"]


def _checksums(inputs: dict) -> dict[str, list[str]]:
    """Returns the checksums of source files: the same files in another place make the same corpus."""
    return {split: [source["sha256"] for source in sources] for split, sources in inputs["sources"].items()}
