"""Released corpora, a module each: where the corpus is, and what of it makes the splits."""

from memattn.data.preparation.releases import iwslt17, mini_librispeech, multi30k, tatoeba, wmt17

__all__ = ["iwslt17", "mini_librispeech", "multi30k", "tatoeba", "wmt17"]
