"""The systems that benchmarks time: libraries, and the models that they run."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class System(NamedTuple):
    """A system that can be timed: a library, and the model that it runs.

    Attributes:
      worker: name of the library's program in `scripts/benchmarks/peers`.
      attention: options of the model's attention.
      model: further keys of `model`, for memattn alone.
      selected: number of tokens that a lexicon selects for a batch; 0: no lexicon.
      precision: type that the layers compute in.
    """

    worker: str
    attention: Mapping[str, Any]
    model: Mapping[str, Any] = {}
    selected: int = 0
    precision: str = "float32"


NONE, BAHDANAU, MEMORY = {"name": "none"}, {"name": "bahdanau"}, {"name": "memory", "num_slots": 32}
# With random weights, this offset stops monotonic attention at about every other position; the default, at none.
STOPS = {"offset": 0.0}
FAMILY = {
    "memattn: linear": System("ours", {"name": "linear"}),
    "memattn: dot product": System("ours", {"name": "luong_dot"}),
    "memattn: location": System("ours", {"name": "location"}),
    "memattn: local-m": System("ours", {"name": "local_m"}),
    "memattn: local-p": System("ours", {"name": "local_p"}),
    "memattn: monotonic": System("ours", {"name": "monotonic", **STOPS}),
    "memattn: MoChA, w = 4": System("ours", {"name": "mocha", "chunk_size": 4, **STOPS}),
    "memattn: MAtChA": System("ours", {"name": "matcha", **STOPS}),
    "memattn: windowed memory by address, K = 32": System(
        "ours", {"name": "windowed_memory", "num_slots": 32, "read": "address"}
    ),
}
POSITIONS = {
    f"memattn: memory, K = {slots}, position encodings": System(
        "ours", {**MEMORY, "num_slots": slots, "position_encoding": True}
    )
    for slots in (32, 64)
}
TRANSFORMERS = {
    "CTranslate2: Transformer": System("ct2", {"name": "transformer"}),
    "CTranslate2: Transformer, int8": System("ct2", {"name": "transformer"}, precision="int8"),
}
SMALL_DEVICES = {
    "memattn: memory, K = 32, ONNX": System("ours_onnx", MEMORY),
    "memattn: memory, K = 32, ONNX int8": System("ours_onnx", MEMORY, precision="int8"),
    "Marian: SSRU, int8": System("marian", {"name": "ssru"}, precision="int8"),
}
SYSTEMS = {
    "memattn: no attention": System("ours", NONE),
    **{
        f"memattn: memory, K = {slots}": System("ours", {**MEMORY, "num_slots": slots})
        for slots in (1, 4, 8, 16, 32, 64)
    },
    **{
        f"memattn: windowed memory, K = {slots}": System(
            "ours", {"name": "windowed_memory", "num_slots": slots, "read": "additive"}
        )
        for slots in (8, 32)
    },
    "memattn: Bahdanau": System("ours", BAHDANAU),
    "memattn: Bahdanau, keys each step": System("ours", {**BAHDANAU, "cache_keys": False}),
    "memattn: memory, no input feeding": System("ours", MEMORY, {"input_feeding": False}),
    "memattn: memory, K = 32, selection": System("ours", MEMORY, selected=3_000),
    "memattn: Bahdanau, selection": System("ours", BAHDANAU, selected=3_000),
    "memattn: memory, K = 32, bfloat16": System("ours", MEMORY, precision="mixed_bfloat16"),
    "memattn: Bahdanau, bfloat16": System("ours", BAHDANAU, precision="mixed_bfloat16"),
    "memattn: memory, K = 32, selection, bfloat16": System("ours", MEMORY, selected=3_000, precision="mixed_bfloat16"),
    **FAMILY,
    **POSITIONS,
    "tensorflow-addons: Bahdanau": System("tfa", BAHDANAU),
    "OpenNMT-tf: Bahdanau": System("onmt_tf", BAHDANAU),
    "OpenNMT-py: Bahdanau": System("onmt_py", BAHDANAU),
    "Joey NMT: Bahdanau": System("joey_nmt", BAHDANAU),
    "Marian: Bahdanau": System("marian", BAHDANAU),
    **TRANSFORMERS,
    **SMALL_DEVICES,
}
DECODED = [  # systems that are timed by default
    name
    for name, system in SYSTEMS.items()
    if name not in FAMILY | POSITIONS | TRANSFORMERS | SMALL_DEVICES
    and not system.selected
    and system.precision == "float32"
]
DECODERS = ("ours_onnx", "marian", "ct2")  # workers that cannot train
TRAINED = [name for name in DECODED if SYSTEMS[name].attention != NONE and SYSTEMS[name].worker not in DECODERS]
