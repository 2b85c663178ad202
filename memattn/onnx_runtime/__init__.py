"""Translates with a model in ONNX, by NumPy and ONNX Runtime: nothing here imports TensorFlow."""

ENCODER, STEP = "encoder.onnx", "decoder_step.onnx"  # the graphs of an exported folder
FACTS = "export.json"  # how to search, and how the model was made
