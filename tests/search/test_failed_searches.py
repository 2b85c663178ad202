"""Warnings about sentences for which a model gives NaN, with a searcher that has no hypothesis for some."""

import numpy as np
import pytest

from memattn.config import DecodingConfig
from memattn.data.sentences import Sentences
from memattn.data.tokenizer import Tokenizer
from memattn.data.vocabulary import EOS, Vocabulary
from memattn.search.searcher import decode
from memattn.search.translation import Hypotheses
from memattn.serving.translator import Translator

VOCABULARY = Vocabulary(["a", "b", "bad"])


class Searcher:
    """Repeats the source; has no hypothesis for sources that begin with the token "bad"."""

    config, has_alignments = DecodingConfig(beam_size=1, batch_size=2), False

    def __call__(self, source, numbers=None):
        is_good = source[:, 0] != VOCABULARY.encode(["bad"])[0]
        lengths = np.where(is_good, (source > EOS).sum(1), 0)
        return Hypotheses(source[:, None], lengths[:, None], np.where(is_good, -1.0, -np.inf)[:, None])


def sentences(lines):
    return Sentences.from_ids([VOCABULARY.encode(line.split()) for line in lines])


@pytest.fixture
def translator():
    """A translator with the searcher above."""
    return Translator(Searcher(), Tokenizer(), VOCABULARY, 9)


def test_decoding_a_corpus_warns_of_the_number_of_failed_sentences():
    with pytest.warns(UserWarning, match="^outputs are not finite in 2 sentences; their translations are empty$"):
        translations, _ = decode(Searcher(), sentences(["a b", "bad", "b", "bad a", "a"]), VOCABULARY, 1)
    assert [translation.best for translation in translations] == [["a", "b"], [], ["b"], [], ["a"]]


def test_translating_lines_warns_of_the_first_that_failed(translator):
    with pytest.warns(UserWarning, match="^lines:3: the model's outputs are not finite") as caught:
        assert translator.translate(["a b", "", "bad", "b", "bad a"]) == ["a b", "", "", "b", ""]
        assert translator.translate(["bad"]) == [""]
    assert len(caught) == 1
