"""Splits the tokens of a long line into pieces that a model can translate."""

from memattn.data.bpe import SEPARATOR

_ENDS_A_SENTENCE = tuple(".!?…。！？؟।")
_ALSO_WITHIN_A_WORD = tuple("。！？")  # of scripts that are written without blanks


def pieces(tokens: list[str], word_numbers: list[int], most: int) -> list[list[str]]:
    """Returns consecutive pieces of at most `most` tokens; a single, empty piece of no tokens.

    Each piece is as long as it may be: it ends with the last sentence that ends in the second half of that length, or
    else with the last whole word, or else anywhere. `word_numbers` tells the word of each token.
    """
    found, start = [], 0
    while len(tokens) - start > most:
        longest = range(start + most, start, -1)
        sentences = (end for end in longest[: (most + 1) // 2] if _ends_a_sentence(tokens, word_numbers, end))
        words = (end for end in longest if word_numbers[end - 1] != word_numbers[end])
        end = next(sentences, None) or next(words, None) or start + most
        found.append(tokens[start:end])
        start = end
    return [*found, tokens[start:]]


def _ends_a_sentence(tokens: list[str], word_numbers: list[int], end: int) -> bool:
    token = tokens[end - 1].removesuffix(SEPARATOR)
    if word_numbers[end - 1] == word_numbers[end]:
        return token.endswith(_ALSO_WITHIN_A_WORD)
    return token.endswith(_ENDS_A_SENTENCE)
