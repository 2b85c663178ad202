"""Options of decoding: beam search, or sampling."""

import dataclasses
import math
from fractions import Fraction
from typing import Annotated, Literal

from memattn.options import Options, PositiveInt, Precision, Problems, Range, Seed


@dataclasses.dataclass(frozen=True)
class SampleConfig(Options):
    """Sampling, as for back-translation: draws `n_best` hypotheses of each source, independent of each other."""

    top_k: PositiveInt | None = None  # draw from the k most probable tokens; null: from all
    # draw from the most probable tokens that together have this probability; null: from all
    top_p: Annotated[float, Range(above=0, below=1)] | None = None
    # divides the logits; below 1, probable tokens become more probable
    temperature: Annotated[float, Range(at_least=1e-6)] = 1.0
    seed: Seed = 1  # seed of the samples, combined with each sentence's number


@dataclasses.dataclass(frozen=True)
class DecodingConfig(Options):
    """Beam search, or sampling."""

    beam_size: Annotated[int, Range(at_least=1, below=1000)] = 10  # k, hypotheses of a source
    batch_size: PositiveInt = 32  # sources searched at once
    # a: scores are divided by ((5 + tokens) / 6)^a, with tokens counted without the end of sentence
    length_penalty: Annotated[float, Range(at_least=0)] = 0.0
    # b: b sum_s log(min(a_s, 1)) is added to scores. a_s is the attention that source position s received so far, with
    # the absolute weights of each step normalized to 1 (Wu et al., 2016)
    coverage_penalty: Annotated[float, Range(at_least=0)] = 0.0
    # upper bound on the length of a hypothesis, as a multiple of the number of the encoder's states; both count the end
    # of sentence
    max_length_ratio: Annotated[float, Range(above=0, below=1000)] = 2.0
    # further upper bound on the length of a hypothesis in tokens, the end of sentence included; null: none
    max_length: PositiveInt | None = None
    # memattn-translate, exported models: upper bound on tokens of a line, without the end of sentence; null: twice the
    # longest source in training
    max_source_length: PositiveInt | None = None
    # memattn-translate: treatment of a longer line. split: pieces, cut at ends of sentences and words; cut: the rest is
    # dropped; refuse: an error
    long_lines: Literal["split", "cut", "refuse"] = "split"
    # n: no n-gram occurs twice in a hypothesis (docs/guides/evaluation_and_decoding.md); null or 0: n-grams may repeat
    no_repeat_ngram_size: Annotated[int, Range(at_least=0)] | None = None
    n_best: PositiveInt = 1  # hypotheses that are returned; in beam search, at most beam_size
    sample: SampleConfig | None = None  # sampling in place of a search; null: beam search
    # for Neural GPUs: length of the memory as a multiple of the source's. null: the length of the most probable
    # hypothesis, from the source's to twice that (in validation, one ratio with room for 95% of the targets); estimate:
    # the length that a linear regression on the training pairs predicts
    memory_ratio: Annotated[float, Range(at_least=1, below=100)] | Literal["estimate"] | None = None
    # vocabulary selection: file written by `memattn-prepare lexicon`; null: hypotheses may have any token
    lexicon: str | None = None
    lexicon_size: PositiveInt = 50  # translations of each source token that are selected
    # type that layers compute in; null: as in training
    precision: Precision | None = None
    # compile with XLA; auto: as for training.jit_compile, but false for memattn-translate, memattn-report, memattn.load
    jit_compile: bool | Literal["auto"] = "auto"

    def problems(self) -> Problems:
        if self.sample and self.coverage_penalty:
            yield "coverage_penalty", "is for beam search; decoding.sample has no use for it"
        if self.n_best > self.beam_size and not self.sample:
            yield "n_best", f"{self.n_best} is more than decoding.beam_size = {self.beam_size}"

    def max_steps(self, length: int) -> int:
        """Returns the bound on steps for a source of `length` states, both with the end of sentence; 0 for padding."""
        relative = math.ceil(Fraction(str(self.max_length_ratio)) * length)  # with floats, 1.1 * 50 > 55
        return relative if self.max_length is None else min(relative, self.max_length)
