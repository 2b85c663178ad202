"""Codes of languages, as Moses and sacreBLEU know them."""

import re

from sacremoses.corpus import NonbreakingPrefixes

CHINESE = frozenset({"zh", "yue", "wuu", "lzh"})
HAN = CHINESE | {"ja"}  # languages written in Han characters
WITHOUT_BLANKS = HAN | {"th", "lo", "km", "my", "shn", "bo", "dz"}  # languages without blanks between words
# Codes of three letters (ISO 639-2 and 639-3), where Moses and sacreBLEU know a language by two.
SHORT_CODES = {
    "bur": "my", "chi": "zh", "cze": "cs", "dut": "nl", "fre": "fr", "ger": "de", "gre": "el", "ice": "is",
    "lav": "lv", "rum": "ro", "slo": "sk", "tib": "bo", "zho": "zh",
    "asm": "as", "ben": "bn", "bod": "bo", "cat": "ca", "ces": "cs", "cmn": "zh", "deu": "de", "ell": "el",
    "eng": "en", "est": "et", "fin": "fi", "fra": "fr", "gle": "ga", "guj": "gu", "hin": "hi", "hun": "hu",
    "isl": "is", "ita": "it", "jpn": "ja", "kan": "kn", "khm": "km", "kor": "ko", "lao": "lo", "lit": "lt",
    "lvs": "lv", "mal": "ml", "mar": "mr", "mya": "my", "nld": "nl", "ori": "or", "pan": "pa", "pol": "pl",
    "por": "pt", "ron": "ro", "rus": "ru", "slk": "sk", "slv": "sl", "spa": "es", "swe": "sv", "tam": "ta",
    "tel": "te", "tha": "th",
}  # fmt: skip


def known_code(code: str) -> str:
    """Returns the code by which Moses and sacreBLEU know a language: `zh` for zh-TW, zho_Hans or cmn, `ko` for KO."""
    language = re.split("[-_]", code)[0].lower()
    return SHORT_CODES.get(language) or NonbreakingPrefixes().available_langs.get(language, language)
