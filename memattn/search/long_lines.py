"""Splits the tokens of a long line into pieces that a model can translate."""

from memattn.data.bpe import SEPARATOR

_SENTENCE_ENDS = tuple(".!?…。！？؟।")
_SENTENCE_ENDS_WITHIN_WORDS = tuple("。！？")  # in scripts without blanks between words


def pieces(tokens: list[str], word_numbers: list[int], max_tokens: int) -> list[list[str]]:
    """Splits a line into consecutive pieces of at most `max_tokens` tokens; a line of no tokens is one empty piece.

    A piece ends with the last sentence that ends in the second half of its `max_tokens`. Without such a sentence, it
    ends with the last word that fits, and if not even a word fits, with the last token.

    Args:
      tokens: the line's tokens.
      word_numbers: the number of each token's word.
      max_tokens: at least 1.
    """
    results, start = [], 0
    while len(tokens) - start > max_tokens:
        ends = range(start + max_tokens, start, -1)
        sentences = (end for end in ends[: (max_tokens + 1) // 2] if _ends_a_sentence(tokens, word_numbers, end))
        words = (end for end in ends if word_numbers[end - 1] != word_numbers[end])
        end = next(sentences, None) or next(words, None) or start + max_tokens
        results.append(tokens[start:end])
        start = end
    return [*results, tokens[start:]]


def _ends_a_sentence(tokens: list[str], word_numbers: list[int], end: int) -> bool:
    """Returns whether a sentence ends before the token at place `end`."""
    token = tokens[end - 1].removesuffix(SEPARATOR)
    if word_numbers[end - 1] == word_numbers[end]:
        return token.endswith(_SENTENCE_ENDS_WITHIN_WORDS)
    return token.endswith(_SENTENCE_ENDS)
