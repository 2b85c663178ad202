"""Worker: memattn in ONNX, with the searcher of `memattn-onnx`. The worker decodes only.

Another process exports the model, so that this one has no TensorFlow in its memory.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
import worker

from memattn.serving.onnx_searcher import OnnxSearcher

work = worker.options()
with tempfile.TemporaryDirectory() as folder:
    exported = os.path.join(folder, "onnx")
    export = {"task": "export", "folder": exported, "int8": work.precision == "int8", "precision": "float32"}
    program = os.path.join(os.path.dirname(__file__), "ours.py")
    subprocess.run([sys.executable, program, json.dumps({**vars(work), **export})], check=True, stdout=sys.stderr)
    searcher = OnnxSearcher(exported, work.threads)


def decode(ids, lengths):
    return searcher(ids.astype(np.int32)).tokens[:, 0]


versions = {"onnxruntime": onnxruntime.__version__}
worker.serve_decoding(work, versions, f"ONNX, {work.precision}", decode)
