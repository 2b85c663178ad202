"""Searches batches with the graphs of an exported folder, as `memattn.search` does with a model, without TensorFlow."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from memattn import files
from memattn.data.vocabulary import BOS, EOS, PAD
from memattn.errors import ConfigError, DataError
from memattn.options import OptionError, split
from memattn.search.config import DecodingConfig
from memattn.search.translation import Hypotheses

ENCODER, STEP = "encoder.onnx", "decoder_step.onnx"  # the graphs of an exported folder
METADATA = "export.json"  # the config, and how the model was made

State = Mapping[str, np.ndarray]


class OnnxSearcher:
    """Finds the n best hypotheses of each source in a batch.

    Args:
      folder: folder that `memattn-export --format onnx` wrote.
      threads: number of threads; 0: one for each core.
      **changes: options of `DecodingConfig` other than those of the run.

    Attributes:
      has_alignments: whether the model weighs source positions, so that `align` can be called.
      max_source_length: upper bound on the tokens of a line that is translated in one piece.

    Raises ConfigError for an option that cannot be used, or without ONNX Runtime; DataError, OSError for a folder that
    is no complete export.
    """

    def __init__(self, folder: str, threads: int = 0, **changes: Any):
        try:
            import onnxruntime  # only here, as exports need no more of this module than names of files
        except ImportError as error:
            raise ConfigError(f"{folder}: needs the package {error.name}; pip install {error.name}") from error

        metadata = files.read_json(os.path.join(folder, METADATA), {"max_source_length": int, "config": dict})
        self.max_source_length = metadata["max_source_length"]
        try:
            # Options that only another version of memattn has are left out.
            self.config, _ = split(DecodingConfig, {**metadata["config"]["decoding"], **changes})
        except OptionError as error:
            raise ConfigError(f"{folder}: decoding.{error}") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        sessions = []
        for name in (ENCODER, STEP):
            path = os.path.join(folder, name)
            try:
                sessions.append(onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"]))
            except Exception as error:  # ONNX Runtime's errors have no base of their own
                raise DataError(f"{path}: ONNX Runtime cannot load it: {error}") from error
        self._encoder, self._step = sessions
        self._encoder_outputs = [output.name for output in self._encoder.get_outputs()]
        self._step_outputs = [output.name for output in self._step.get_outputs()]
        self.has_alignments = "weights" in self._step_outputs

    def __call__(self, source: np.ndarray, numbers: Any = None) -> Hypotheses:
        """Returns the n best hypotheses of a padded batch of sources [B, S], without rows of padding at its end."""
        source = _without_padding(source)
        memory, state = self._encode(source)

        def step(tokens: np.ndarray, state: State) -> tuple[np.ndarray, np.ndarray, State]:
            outputs, state = self._run_step(tokens, state, memory, self.config.beam_size + 1)
            return outputs["next_tokens"], outputs["log_probs"], state

        return beam_search(
            step,
            state,
            beam_size=self.config.beam_size,
            max_lengths=np.array([self.config.max_steps(length) for length in (source != PAD).sum(1).tolist()]),
            n_best=self.config.n_best,
            length_penalty_weight=self.config.length_penalty,
        )

    def align(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Returns weights of source positions [B, T, S] at each step of target ids [B, T], for a batch of sources."""
        source = _without_padding(source)
        memory, state = self._encode(source)
        target = target[: len(source)]
        inputs = np.concatenate([np.full_like(target[:, :1], BOS), target[:, :-1]], 1).astype(np.int32)
        weights = []
        for tokens in inputs.T:
            outputs, state = self._run_step(tokens[:, None], state, memory, 1)
            weights.append(outputs["weights"])
        return np.concatenate(weights, 1)

    def _encode(self, source: np.ndarray) -> tuple[dict[str, np.ndarray], State]:
        """Returns the memory and the initial state."""
        memory = dict(zip(self._encoder_outputs, self._encoder.run(None, {"source": source}), strict=True))
        state = {name: memory.pop(name) for name in self._encoder_outputs if f"next_{name}" in self._step_outputs}
        return memory, state

    def _run_step(
        self, tokens: np.ndarray, state: State, memory: Mapping[str, np.ndarray], continuations: int
    ) -> tuple[dict[str, np.ndarray], State]:
        """Returns the outputs of a decoder step, and the next state."""
        inputs = {"tokens": tokens, "continuations": np.array([continuations]), **memory, **state}
        outputs = dict(zip(self._step_outputs, self._step.run(None, inputs), strict=True))
        return outputs, {name: outputs[f"next_{name}"] for name in state}


def length_penalty(lengths: np.ndarray, weight: float) -> np.ndarray:
    """Returns ((5 + length) / 6) ^ weight of Wu et al. (2016)."""
    return ((5 + lengths.astype(np.float32)) / 6) ** np.float32(weight)


def beam_search(
    step: Callable[[np.ndarray, Any], tuple[np.ndarray, np.ndarray, State]],
    state: State,
    *,
    beam_size: int,
    max_lengths: np.ndarray,
    n_best: int,
    length_penalty_weight: float,
) -> Hypotheses:
    """Returns the n best hypotheses of each source, as `memattn.search.beam_search` does.

    A finished hypothesis stays on the beam until k hypotheses are better. A hypothesis that reaches its maximum length
    is kept without an end of sentence. The search stops once no unfinished hypothesis can enter the n best of its
    source.

    Args:
      step: (tokens [B, k], state) -> the most probable next tokens [B, k, C], at least k + 1 of them if there are so
        many, their log-probabilities, and the next state.
      state: tensors [B, 1, ...].
      beam_size: k, the number of hypotheses of each source.
      max_lengths: [B], upper bound on the steps of each source, its end of sentence included.
      n_best: n, at most k.
      length_penalty_weight: weight of `length_penalty`.
    """
    batch, sources = len(max_lengths), np.arange(len(max_lengths))[:, None]
    state = {name: np.repeat(tensor, beam_size, 1) for name, tensor in state.items()}
    tokens = np.full([batch, beam_size], BOS, np.int32)
    paths = np.full([batch, beam_size, max(max_lengths, default=0)], EOS, np.int32)
    log_probs = np.full([batch, beam_size], -np.inf, np.float32)
    log_probs[:, 0] = 0  # a single hypothesis of each source
    lengths: np.ndarray = np.zeros([batch, beam_size], np.int32)
    finished = np.repeat(max_lengths[:, None] <= 0, beam_size, 1)
    penalties = length_penalty(np.arange(paths.shape[2] + 1), length_penalty_weight)
    largest_penalty = length_penalty(max_lengths, length_penalty_weight)[:, None]
    for time in range(paths.shape[2]):
        next_tokens, next_log_probs, state = step(tokens, state)
        number = next_tokens.shape[2]
        next_log_probs = np.fmax(next_log_probs, -np.inf)  # NaN drops the hypothesis
        if finished.any():  # a finished hypothesis has one continuation, by another end of sentence
            only_first = np.where(np.arange(number) == 0, 0, -np.inf).astype(np.float32)
            next_tokens = np.where(finished[:, :, None], EOS, next_tokens)
            next_log_probs = np.where(finished[:, :, None], only_first, next_log_probs)
        totals = log_probs[:, :, None] + next_log_probs
        next_lengths = lengths[:, :, None] + (next_tokens != EOS)
        scores = totals / penalties.take(next_lengths)
        best = np.argsort(-scores.reshape(batch, -1), axis=1, kind="stable")[:, :beam_size]
        best = best + beam_size * number * sources  # indices of [B, k, C] in a row, as `take` wants them
        parents = best // number
        scores, tokens = scores.take(best), next_tokens.take(best)
        log_probs, lengths = totals.take(best), next_lengths.take(best)
        if beam_size > 1:  # a single hypothesis continues itself
            state = {name: _gather_parents(tensor, parents) for name, tensor in state.items()}
            paths = _gather_parents(paths, parents)
        paths[:, :, time] = tokens
        finished = finished.take(parents) | (tokens == EOS) | (time + 1 >= max_lengths[:, None])
        if not finished.any():
            continue
        # Log-probabilities can only fall, so these are upper bounds on the scores that unfinished hypotheses can reach.
        bounds = np.where(finished, -np.inf, log_probs / largest_penalty)
        nth = np.where(finished, scores, -np.inf)[:, n_best - 1 : n_best]
        if not ((bounds[:, :n_best] > -np.inf).any() or (bounds > nth).any()):
            break
    scores = (log_probs / length_penalty(lengths, length_penalty_weight))[:, :n_best]
    lengths = np.where(scores > -np.inf, lengths[:, :n_best], 0)
    within = np.arange(paths.shape[2]) < lengths[:, :, None]
    return Hypotheses(np.where(within, paths[:, :n_best], EOS), lengths, scores)


def _gather_parents(tensor: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """Returns the entries of a tensor [B, k, ...] at indices [B, k] of its hypotheses in a row."""
    return tensor.reshape(-1, *tensor.shape[2:]).take(parents, 0)


def _without_padding(source: np.ndarray) -> np.ndarray:
    """Returns a padded batch [B, S] without rows and columns that are all padding; these come last."""
    is_real = source != PAD
    return source[: int(is_real.any(1).sum()), : int(is_real.any(0).sum())]
