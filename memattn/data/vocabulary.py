"""The vocabulary: tokens to ids and back, with four special ids in front."""

import re

import numpy as np

PAD, BOS, EOS, UNK = range(4)
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
_WORD = re.compile(r"\S+", re.ASCII)


def split_words(line: str) -> list[str]:
    """Splits a line into words at ASCII white space. Other white space, such as a no-break space, is part of a word."""
    words = line.split()  # fast, but splits at all white space
    return words if " ".join(words) == line else _WORD.findall(line)


class Vocabulary:
    """One vocabulary for source and target.

    Args:
      tokens: all tokens but the special ones.

    Attributes:
      tokens: all tokens by id, the special ones first.
      ids: ids by token. Special tokens are left out: in text they are unknown words.
    """

    def __init__(self, tokens: list[str]):
        self.tokens = [*SPECIAL_TOKENS, *tokens]
        self.ids = {token: i for i, token in enumerate(tokens, len(SPECIAL_TOKENS))}

    def __len__(self) -> int:
        return len(self.tokens)

    def __str__(self) -> str:
        """Returns the content of a vocabulary's file: a token per line, without the special ones."""
        return "".join(f"{token}\n" for token in self.tokens[len(SPECIAL_TOKENS) :])

    def encode(self, words: list[str]) -> list[int]:
        """Returns the ids of words, with the end of sentence appended."""
        return [self.ids.get(word, UNK) for word in words] + [EOS]

    def decode(self, ids: np.ndarray) -> list[str]:
        """Returns the tokens of ids up to the end of sentence, without PAD and BOS."""
        words = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                words.append(self.tokens[i])
        return words
