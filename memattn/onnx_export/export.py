"""Exports a trained model as a folder for `memattn-onnx`."""

import logging
import os
from collections.abc import Iterator
from typing import cast

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

from memattn.models.encoder import CELLS
from memattn.models.seq2seq import Seq2Seq
from memattn.onnx_export.attention import MECHANISMS
from memattn.onnx_export.model import encoder_graph, step_graph
from memattn.onnx_runtime import ENCODER, STEP
from memattn.runs.trained import Trained
from memattn.serving import exporting


def export(trained: Trained, folder: str, max_source_length: int | None = None, *, int8: bool = False) -> int:
    """Writes a folder for `memattn-onnx`, which appears under its name when it is complete.

    Args:
      trained: the trained model.
      folder: the folder, which must not exist.
      max_source_length: most tokens of a source; see `saved_model.export`. The graphs take sources of any length.
      int8: whether weights are integers of 8 bits, and so the inputs of their products.

    Returns the most tokens of a source. Raises ConfigError, OSError.
    """
    longest = max_source_length or trained.max_source_length
    with exporting.new_folder(trained, folder, longest, problems=_problems(trained)) as unfinished:
        model = cast(Seq2Seq, trained.models[0])
        encoder = encoder_graph(model)
        for name, graph in {ENCODER: encoder, STEP: step_graph(model, encoder)}.items():
            (_quantize if int8 else onnx.save)(graph, os.path.join(unfinished, name))
    return longest


def _quantize(graph: onnx.ModelProto, path: str) -> None:
    """Writes a graph with weights of 8 bits."""
    logging.disable(logging.WARNING)  # of advice that does not concern these graphs
    try:
        # Weights of 7 bits, so that 16-bit sums do not overflow on CPUs without VNNI instructions.
        quantize_dynamic(graph, path, weight_type=QuantType.QInt8, reduce_range=True)
    finally:
        logging.disable(logging.NOTSET)


def _problems(trained: Trained) -> Iterator[str]:
    """Yields why a model or its search is not exported to ONNX."""
    if len(trained.models) > 1:
        yield "--run_dir: an ensemble is not exported to ONNX; give one run folder"
    for key in ("coverage_penalty", "no_repeat_ngram_size"):
        if getattr(trained.config.decoding, key):
            yield f"decoding.{key}: is not exported to ONNX; --set decoding.{key}=0"
    model = trained.models[0]
    if not isinstance(model, Seq2Seq):
        yield f"model.kind: {trained.config.model.kind} is not exported to ONNX; only seq2seq is"
        return
    config, mechanism = model.config, model.config.attention["name"]
    if config.encoder not in CELLS or model.encoder.reduction > 1:
        yield "model.encoder: only lstm and gru without encoder_reduce are exported to ONNX"
    if config.decoder not in CELLS:
        yield "model.decoder: only lstm and gru are exported to ONNX"
    if mechanism not in MECHANISMS:
        yield f"model.attention.name: {mechanism} is not exported to ONNX; only {', '.join(MECHANISMS)} are"
