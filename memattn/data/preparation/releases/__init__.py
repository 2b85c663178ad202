"""Released corpora, a module each: where the corpus is, and what of it makes the splits."""

from memattn.data.preparation.releases import mini_librispeech, multi30k, wmt17

__all__ = ["mini_librispeech", "multi30k", "wmt17"]
