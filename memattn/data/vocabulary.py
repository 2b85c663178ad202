"""The vocabulary: tokens to ids and back, with four special ids in front."""

import re

import numpy as np

PAD, BOS, EOS, UNK = range(4)
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
_WORD = re.compile(r"\S+", re.ASCII)


def split_words(line: str) -> list[str]:
    """Words of a line, which blanks and tabs divide; other white space, such as a no-break space, is part of a word."""
    found = line.split()  # fast, but at all white space
    return found if " ".join(found) == line else _WORD.findall(line)


class Vocabulary:
    """One vocabulary for source and target; `tokens` excludes the special ones.

    Raises ValueError if a token is empty, holds white space, occurs twice or is a special one.
    """

    def __init__(self, tokens: list[str]):
        self.tokens = [*SPECIAL_TOKENS, *tokens]
        ids = {token: i for i, token in enumerate(self.tokens)}
        if len(ids) != len(self.tokens):
            seen = set()
            twice = next(token for token in self.tokens if token in seen or seen.add(token))
            raise ValueError(f"the token {twice!r} occurs twice")
        for token in tokens:
            if split_words(token) != [token]:
                raise ValueError(f"the token {token!r} is empty or holds white space")
        self.ids = {token: ids[token] for token in tokens}  # without the special ones, which in text are unknown words

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def parse(cls, text: str) -> "Vocabulary":
        """The inverse of `str`: one token a line."""
        return cls(text.split("\n")[:-1] if text.endswith("\n") else text.split("\n"))

    def __str__(self) -> str:
        return "".join(f"{token}\n" for token in self.tokens[len(SPECIAL_TOKENS) :])

    def encode(self, words: list[str]) -> list[int]:
        """Ids of the words, with the end of sentence appended."""
        return [self.ids.get(word, UNK) for word in words] + [EOS]

    def decode(self, ids: np.ndarray) -> list[str]:
        """Tokens of the ids up to the end of sentence, without padding and starts."""
        words = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                words.append(self.tokens[i])
        return words
