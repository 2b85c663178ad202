"""The systems that benchmarks time: libraries, and the models that they run."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple


class Worker(NamedTuple):
    """A program in `scripts/benchmarks/peers`, with the settings that were fastest."""

    name: str
    is_ours: bool = False  # it runs in this process' Python environment
    trains: bool = False  # it can train
    processes: float = 2  # at most; they share threads and batches; memattn decodes two batches at once in one
    batch: Mapping[float, int] = {math.inf: 32}  # greatest length of a source or hypothesis -> sources decoded together
    variables: Mapping[str, str] = {}  # of the environment


# On this work, TensorFlow 2.15 is faster without oneDNN; PyTorch is very slow if its threads spin. The caches of a
# Transformer grow with hypotheses times length.
_WITHOUT_ONEDNN = {"TF_ENABLE_ONEDNN_OPTS": "0"}
_PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}
OURS = Worker("ours", is_ours=True, trains=True, processes=1)
OURS_ONNX = Worker("ours_onnx", is_ours=True)
TFA = Worker("tfa", trains=True, batch={20: 32, 50: 16, math.inf: 8}, variables=_WITHOUT_ONEDNN)
ONMT_TF = Worker("onmt_tf", trains=True, batch={20: 32, math.inf: 8}, variables=_WITHOUT_ONEDNN)
ONMT_PY = Worker("onmt_py", batch={20: 32, math.inf: 8}, variables=_PASSIVE)
JOEY_NMT = Worker("joey_nmt", trains=True, batch={20: 32, math.inf: 8}, variables=_PASSIVE)
# Marian's threads divide a batch into parts of different widths, which would give hypotheses different limits.
MARIAN = Worker("marian", processes=math.inf, batch={20: 32, math.inf: 16})
CT2 = Worker("ct2", batch={20: 8, 35: 16, 50: 8, math.inf: 2})
CT2_INT8 = CT2._replace(batch={50: 4, 100: 2, math.inf: 1})


class System(NamedTuple):
    """A system that can be timed: a library, and the model that it runs."""

    worker: Worker
    attention: Mapping[str, Any]  # options of the mechanism
    model: Mapping[str, Any] = {}  # further keys of `model`, for memattn alone
    selected: int = 0  # number of tokens that a lexicon selects for a batch; 0: no lexicon
    precision: str = "float32"


BAHDANAU, MEMORY = {"name": "bahdanau"}, {"name": "memory", "num_slots": 32}
WINDOWED = {"name": "windowed_memory", "num_slots": 32, "read": "additive"}
# With random weights, this offset stops monotonic attention at about every other position; the default, at none.
STOPS = {"offset": 0.0}
SYSTEMS = {
    "memattn: no attention": System(OURS, {"name": "none"}),
    **{
        f"memattn: memory, K = {slots}": System(OURS, {**MEMORY, "num_slots": slots}) for slots in (1, 4, 8, 16, 32, 64)
    },
    **{
        f"memattn: memory, K = {slots}, position encodings": System(
            OURS, {**MEMORY, "num_slots": slots, "position_encoding": True}
        )
        for slots in (32, 64)
    },
    "memattn: windowed memory, K = 8": System(OURS, {**WINDOWED, "num_slots": 8}),
    "memattn: windowed memory, K = 32": System(OURS, WINDOWED),
    "memattn: windowed memory by address, K = 32": System(OURS, {**WINDOWED, "read": "address"}),
    "memattn: Bahdanau": System(OURS, BAHDANAU),
    "memattn: Bahdanau, keys each step": System(OURS, {**BAHDANAU, "cache_keys": False}),
    "memattn: memory, no input feeding": System(OURS, MEMORY, {"input_feeding": False}),
    "memattn: memory, K = 32, selection": System(OURS, MEMORY, selected=3_000),
    "memattn: Bahdanau, selection": System(OURS, BAHDANAU, selected=3_000),
    "memattn: memory, K = 32, bfloat16": System(OURS, MEMORY, precision="mixed_bfloat16"),
    "memattn: Bahdanau, bfloat16": System(OURS, BAHDANAU, precision="mixed_bfloat16"),
    "memattn: memory, K = 32, selection, bfloat16": System(OURS, MEMORY, selected=3_000, precision="mixed_bfloat16"),
    "memattn: linear": System(OURS, {"name": "linear"}),
    "memattn: dot product": System(OURS, {"name": "luong_dot"}),
    "memattn: location": System(OURS, {"name": "location"}),
    "memattn: local-m": System(OURS, {"name": "local_m"}),
    "memattn: local-p": System(OURS, {"name": "local_p"}),
    "memattn: monotonic": System(OURS, {"name": "monotonic", **STOPS}),
    "memattn: MoChA, w = 4": System(OURS, {"name": "mocha", "chunk_size": 4, **STOPS}),
    "memattn: MAtChA": System(OURS, {"name": "matcha", **STOPS}),
    "memattn: memory, K = 32, ONNX": System(OURS_ONNX, MEMORY),
    "memattn: memory, K = 32, ONNX int8": System(OURS_ONNX, MEMORY, precision="int8"),
    "tensorflow-addons: Bahdanau": System(TFA, BAHDANAU),
    "OpenNMT-tf: Bahdanau": System(ONMT_TF, BAHDANAU),
    "OpenNMT-py: Bahdanau": System(ONMT_PY, BAHDANAU),
    "Joey NMT: Bahdanau": System(JOEY_NMT, BAHDANAU),
    "Marian: Bahdanau": System(MARIAN, BAHDANAU),
    "Marian: SSRU, int8": System(MARIAN, {"name": "ssru"}, precision="int8"),
    "CTranslate2: Transformer": System(CT2, {"name": "transformer"}),
    "CTranslate2: Transformer, int8": System(CT2_INT8, {"name": "transformer"}, precision="int8"),
}

OF_MEMATTN = [name for name, system in SYSTEMS.items() if system.worker is OURS]
