"""Exports a trained model as a folder for `memattn-onnx`."""

import functools
import logging
import os

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

from memattn import attention
from memattn.errors import ConfigError
from memattn.models.decoder import Decoder
from memattn.models.encoder import Encoder
from memattn.models.gru_decoder import GRUDecoder
from memattn.models.seq2seq import Seq2Seq
from memattn.onnx_export.attention import MECHANISMS
from memattn.onnx_export.model import encoder_graph, step_graph
from memattn.onnx_runtime import ENCODER, STEP
from memattn.runs.trained import Trained
from memattn.serving import exporting


def export(trained: Trained, folder: str, max_source_length: int | None = None, *, int8: bool = False) -> int:
    """Writes a folder for `memattn-onnx`, which appears under its name when it is complete; see `exporting.export`.

    With `int8`, weights are integers of 8 bits, and so are the inputs of their products.
    """
    write = functools.partial(_write, _checked_model(trained), int8)
    return exporting.export(trained, folder, max_source_length, write)


def _write(model: Seq2Seq, int8: bool, folder: str, longest: int) -> None:
    """Writes both graphs into a new folder; they take sources of any length."""
    del longest
    os.makedirs(folder)
    encoder = encoder_graph(model)
    for name, graph in {ENCODER: encoder, STEP: step_graph(model, encoder)}.items():
        path = os.path.join(folder, name)
        if int8:
            _quantize(graph, path)
        else:
            onnx.save(graph, path)


def _quantize(graph: onnx.ModelProto, path: str) -> None:
    """Writes a graph with weights of 8 bits."""
    logging.disable(logging.WARNING)  # of advice that does not concern these graphs
    try:
        # Weights of 7 bits, so that 16-bit sums do not overflow on CPUs without VNNI instructions.
        quantize_dynamic(graph, path, weight_type=QuantType.QInt8, reduce_range=True)
    finally:
        logging.disable(logging.NOTSET)


def _checked_model(trained: Trained) -> Seq2Seq:
    """Returns the model. Raises ConfigError for a model or a search that is not exported."""
    if len(trained.models) > 1:
        raise ConfigError("--run_dir: an ensemble is not exported to ONNX; give one run folder")
    for key in ("coverage_penalty", "no_repeat_ngram_size"):
        if getattr(trained.config.decoding, key):
            raise ConfigError(f"decoding.{key}: is not exported to ONNX; --set decoding.{key}=0")
    model = trained.models[0]
    if not isinstance(model, Seq2Seq):
        raise ConfigError(f"model.kind: {trained.config.model.kind} is not exported to ONNX; only seq2seq is")
    if type(model.encoder) is not Encoder or model.encoder.reduction > 1:
        raise ConfigError("model.encoder: only lstm and gru without encoder_reduce are exported to ONNX")
    if type(model.decoder) not in (Decoder, GRUDecoder):
        raise ConfigError("model.decoder: only lstm and gru are exported to ONNX")
    if type(model.attention) not in MECHANISMS:
        names = [name for name, mechanism in attention.MECHANISMS.items() if mechanism in MECHANISMS]
        name = model.get_config()["attention"]["name"]
        raise ConfigError(f"model.attention.name: {name} is not exported to ONNX; only {', '.join(names)} are")
    return model
