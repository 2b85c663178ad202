"""Searches with a model in ONNX, by NumPy and ONNX Runtime: nothing here imports TensorFlow."""

ENCODER, STEP = "encoder.onnx", "decoder_step.onnx"  # the graphs of an exported folder
METADATA = "export.json"  # the config, and how the model was made
