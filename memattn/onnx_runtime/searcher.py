"""Searches batches with the graphs of an exported folder, as `memattn.search.searcher` does with a model."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime

from memattn import files
from memattn.data.vocabulary import BOS, PAD
from memattn.errors import ConfigError, DataError
from memattn.onnx_runtime import ENCODER, METADATA, STEP
from memattn.onnx_runtime.beam_search import State, beam_search
from memattn.options import OptionError, split
from memattn.search.config import DecodingConfig
from memattn.search.translation import Hypotheses


class OnnxSearcher:
    """Finds the n best hypotheses of each source in a batch.

    Args:
      folder: folder that `memattn-export --format onnx` wrote.
      threads: number of threads; 0: one for each core.
      **changes: options of `DecodingConfig` other than those of the run.

    Attributes:
      config: the config of the search.
      has_alignments: whether the model weighs source positions, so that `align` can be called.
      max_source_length: upper bound on the tokens of a line that is translated in one piece.

    Raises ConfigError for an option that cannot be used; DataError, OSError for a folder that is no complete export.
    """

    def __init__(self, folder: str, threads: int = 0, **changes: Any):
        metadata = files.read_json(os.path.join(folder, METADATA), {"max_source_length": int, "config": dict})
        self.max_source_length = metadata["max_source_length"]
        try:
            self.config, _ = split(DecodingConfig, {**metadata["config"]["decoding"], **changes})
        except OptionError as error:
            raise ConfigError(f"{folder}: decoding.{error}") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._encoder, self._step = (_session(os.path.join(folder, name), options) for name in (ENCODER, STEP))
        self._encoder_outputs = [output.name for output in self._encoder.get_outputs()]
        self._step_outputs = [output.name for output in self._step.get_outputs()]
        self.has_alignments = "weights" in self._step_outputs

    def __call__(self, source: np.ndarray, numbers: Any = None) -> Hypotheses:
        """Returns the n best hypotheses of a padded batch of sources [B, S], without rows of padding at its end."""
        del numbers  # of the sources, for samples
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


def _session(path: str, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    """Loads a graph. Raises DataError."""
    try:
        return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no base of their own
        raise DataError(f"{path}: ONNX Runtime cannot load it: {error}") from error


def _without_padding(source: np.ndarray) -> np.ndarray:
    """Returns a padded batch [B, S] without rows and columns that are all padding; these come last."""
    is_real = source != PAD
    return source[: int(is_real.any(1).sum()), : int(is_real.any(0).sum())]
