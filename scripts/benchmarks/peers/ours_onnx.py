"""Worker: memattn in ONNX, with the searcher of `memattn-onnx`. The worker decodes only.

Another process exports the model, so that this one has no TensorFlow in its memory.
"""

import json
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
from benchmarks.peers import worker

from memattn.serving.onnx_searcher import OnnxSearcher

work = worker.options()
with tempfile.TemporaryDirectory() as folder:
    exported = f"{folder}/onnx"
    export = {"task": "export", "folder": exported, "int8": work.precision == "int8", "precision": "float32"}
    command = [sys.executable, "-m", "benchmarks.peers.ours", json.dumps({**vars(work), **export})]
    subprocess.run(command, check=True, stdout=sys.stderr)
    searcher = OnnxSearcher(exported, work.threads)


def decode(ids, lengths):
    return searcher(ids.astype(np.int32)).tokens[:, 0]


versions = {"onnxruntime": onnxruntime.__version__}
worker.serve_decoding(work, versions, f"ONNX, {work.precision}", decode)
