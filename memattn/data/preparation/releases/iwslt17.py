"""IWSLT 2017: transcripts of TED talks, in English and six other languages."""

import html
import html.parser
import os
import re

from memattn.data.preparation import download
from memattn.data.preparation.releases import archives
from memattn.data.text_files import read_lines
from memattn.errors import DataError

# A revision whose checksums huggingface/datasets published, in early versions of datasets/iwslt2017/dataset_infos.json.
URL = (
    "https://huggingface.co/datasets/IWSLT/iwslt2017/resolve/ebd7c60d9800c2a1be010a227e5f0a2363730f7a/data/"
    "2017-01-trnted/texts"
)
LICENSE = "CC BY-NC-ND 4.0"
ATTRIBUTION = "TED (www.ted.com) and WIT3 (wit3.fbk.eu)"
SHA256 = {  # of the archive of each language pair
    "ar-en": "f1b77caa115cf5cbd00e519b425e33615080c8735fd9dd59a0c811bacd10ab70",
    "de-en": "ebcd53c53c8df742437e3a0fb964772e78764c3f6d4e38df0b6a2f71abc3a8b4",
    "en-ar": "7c9446ebf519fb9ca85d7fb7a6681918772eafc6a33bfdf9852f87442aabd3f7",
    "en-de": "623caec69988b224dbe741f16ad90411b93430117a8021c4bb2bcab7ad1eb21e",
    "en-fr": "1f5bd8cd242de15fb58a04af265adb8e604a7e1b805a42cb0de7dfd15447c5c6",
    "en-ja": "27322c1170d057a92f27edd475cfd2c46f38bd1acdd52bbcffbe725e78b3d472",
    "en-ko": "0ac6caa1fbfbb0c79f1e9ef2f8e5493b83003d6ad85ef504a5584e3b8b006f00",
    "en-zh": "d178f2ede07d7d600e244649e2092fb5fcbdda9729a3bb016502512028e2615b",
    "fr-en": "a40ca3b9a0064bd1fd582df4ced260dd3e7ff9f6f7bf863f139f74b7a5cabd78",
    "ja-en": "19b394f0256e7398bc69fb27c0fde15cd2a6c372a910ad99707ae32d54371640",
    "ko-en": "c0cba8c055a9bd55902aff5d61783ddad281df86f2ebb673d97b126b734a0987",
    "zh-en": "8cecd4e8e196e5cd1e0af48b30e26c36acd33002d1e0f6e448570f68da290258",
}
SPLITS = {  # names of files, as the dataset card divides them, with places for the pair and the language
    "train": ["train.tags.{}.{}"],
    "valid": ["IWSLT17.TED.dev2010.{}.{}.xml"],
    "test": [f"IWSLT17.TED.tst{year}.{{}}.{{}}.xml" for year in range(2010, 2016)],
}
# Matches a line of a training file that describes a talk.
_TAG = re.compile(r"\s*</?(description|doc|keywords|reviewer|speaker|talkid|title|translator|url)\b")


def fetch(pair: str, base_url: str, folder: str) -> dict[str, tuple[str, str]]:
    """Downloads TED talks, and returns the source and target file of each split: raw text, a sentence on a line.

    Args:
      pair: a language pair, such as en-de.
      base_url: address of the release.
      folder: where the archive and, in a folder of the pair, its files and those of the splits go.

    Raises DataError, also for a file with another checksum, OSError.
    """
    languages = pair.split("-")
    url, archive = _archive(pair, base_url, folder)
    download.fetch(url, archive, SHA256[pair])
    folder = archive.removesuffix(".tgz")
    patterns = [name for names in SPLITS.values() for name in names]
    names = [name.format(pair, language) for name in patterns for language in languages]
    download.extract(archive, names, folder)
    splits = {}
    for split, names in SPLITS.items():
        pairs: list[tuple[str, str]] = []
        for name in names:
            source, target = (os.path.join(folder, name.format(pair, language)) for language in languages)
            pairs += _sentence_pairs(source, target)
        splits[split] = archives.write_split(folder, split, languages, pairs)
    return splits


def facts(pair: str, base_url: str, folder: str) -> dict[str, str | int]:
    """Returns what a manifest says about a downloaded release. Raises OSError."""
    url, archive = _archive(pair, base_url, folder)
    return archives.facts(url, archive, LICENSE, ATTRIBUTION)


def _archive(pair: str, base_url: str, folder: str) -> tuple[str, str]:
    """Returns the address of a language pair's archive, and the path of its download."""
    return f"{base_url.rstrip('/')}/{pair.replace('-', '/')}/{pair}.tgz", os.path.join(folder, f"{pair}.tgz")


def _sentence_pairs(source: str, target: str) -> list[tuple[str, str]]:
    """Returns the sentences of a source file and their translations. Raises DataError, OSError."""
    sources, targets = _sentences(source), _sentences(target)
    if len(sources) != len(targets):
        raise DataError(f"{source} has {len(sources):,} sentences, but {target} has {len(targets):,}")
    if not sources:
        raise DataError(f"{source}: no sentences")
    return list(zip(sources, targets, strict=True))


def _sentences(path: str) -> list[str]:
    """Returns the sentences of a file: each <seg> of XML, else each line without a tag. Raises DataError."""
    lines = read_lines(path)
    if path.endswith(".xml"):
        parser = _Segments()
        parser.feed("\n".join(lines))
        parser.close()
        sentences = parser.segments
    else:
        sentences = [html.unescape(line) for line in lines if not _TAG.match(line)]
    return [re.sub(r"\s*[\r\n]\s*", " ", sentence.strip()) for sentence in sentences]


class _Segments(html.parser.HTMLParser):
    """Collects the text of each <seg>. Unlike a parser of XML, accepts ampersands that are not escaped."""

    def __init__(self) -> None:
        super().__init__()
        self.segments: list[str] = []
        self._is_inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "seg":
            self.segments.append("")
            self._is_inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "seg":
            self._is_inside = False

    def handle_data(self, data: str) -> None:
        if self._is_inside:
            self.segments[-1] += data
