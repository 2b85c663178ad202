"""Writes a trained sequence-to-sequence model as graphs of ONNX."""
