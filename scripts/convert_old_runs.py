"""Rewrites configs of versions up to 0.3 to today's keys, in all config.yaml and JSON files of a folder.

python scripts/convert_old_runs.py RUN
"""

import memattn.cli as cli  # isort: skip (sets TensorFlow's logging before it is imported)

import json
from pathlib import Path
from typing import Any

import yaml
from studies.mechanisms import MEMORY_VARIANT, NESTED_MEMORY

from memattn import files
from memattn.errors import ConfigError
from memattn.plain_values import dump

# Options of `memory` in version 0.2, and keys of `model` that it wrote for other kinds of models, with their defaults.
EXTENSIONS = {"encoder_normalize": "none", "vote_scale": 1.0, "read": "address", "read_units": 64}
EXTENSIONS |= {"nested": False, "position_windows": False}
ACTIVE_MEMORY = {"width": 4, "cell": "cgru"}
SEQ2SEQ: dict[str, Any] = {"encoder": "lstm", "decoder": "lstm", "encoder_units": None, "embedding_size": 256}
SEQ2SEQ |= {"init_scale": 0.04, "input_feeding": True, "mix": True, "bridge": "auto", "tie_embeddings": "none"}
SEQ2SEQ |= {"attention": {"name": "none"}}
MOVED = {"nested_memory": NESTED_MEMORY, "memory_variant": MEMORY_VARIANT}  # by their names in version 0.3


def main(*folders: str) -> None:
    if missing := [folder for folder in folders if not Path(folder).is_dir()]:
        raise ConfigError(f"{missing[0]}: no such folder")
    for path in (path for folder in folders for path in Path(folder).rglob("*")):
        is_json = path.suffix == ".json"
        if is_json or path.name == "config.yaml":
            text = path.read_text(encoding="utf-8")
            old = json.loads(text) if is_json else yaml.safe_load(text)
            try:
                new = convert(old)
            except ConfigError as error:
                raise ConfigError(f"{path}: {error}") from error
            if new != old:
                files.write(str(path), json.dumps(new, indent=2) + "\n" if is_json else dump(new))


def convert(value: Any) -> Any:
    """Returns plain values, in which all configs have today's keys."""
    if not isinstance(value, dict):
        return [convert(item) for item in value] if isinstance(value, list) else value
    value = {key: convert(item) for key, item in value.items()}
    if (bleu := value.pop("stop_at_bleu", None)) is not None:
        value["stop_at"] = bleu
    if "beam_size" in value and value.get("num_slots", 0) is None:  # decoding.num_slots, for nested_memory
        del value["num_slots"]
    if {"data", "model", "training"} <= value.keys():
        unused = ACTIVE_MEMORY if value["model"].get("kind", "seq2seq") == "seq2seq" else SEQ2SEQ
        value["model"] = {k: v for k, v in value["model"].items() if k not in unused or v != unused[k]}
    if "encoder_scoring" in value and value.get("name", "memory") == "memory":
        return convert_memory(value)
    if "encoder_scoring" in value and value["name"] in MOVED:
        value["name"] = MOVED[value["name"]]
    return value


def convert_memory(options: dict) -> dict:
    """Returns the options of a former `memory` with the name of the mechanism that has them now. Raises ConfigError."""
    options = {**EXTENSIONS, **options}
    changed = {k for k in EXTENSIONS if options[k] != EXTENSIONS[k]} - {"read_units"}
    scorings = options["encoder_scoring"], options.get("decoder_scoring", "softmax")
    if not changed and scorings[0] != "softmax_time":
        return {k: v for k, v in options.items() if k not in EXTENSIONS}
    if options.get("position_encoding"):
        extensions = ", ".join(sorted(changed)) or "softmax_time"
        raise ConfigError(f"model.attention: no mechanism has position_encoding beside {extensions} any more")
    rest = {k: v for k, v in options.items() if k not in [*EXTENSIONS, "position_encoding", "renormalize"]}
    if "nested" in changed:
        return {**rest, "name": NESTED_MEMORY}
    read = {"read": options["read"], "read_units": options["read_units"]} if "read" in changed else {"read": "address"}
    if scorings == ("softmax_time", "softmax") and {"position_windows"} <= changed <= {"position_windows", "read"}:
        return {"name": "windowed_memory", "num_slots": rest["num_slots"], **read}
    return {**rest, "name": MEMORY_VARIANT, **read, **{k: options[k] for k in EXTENSIONS if k in changed - {"read"}}}


if __name__ == "__main__":
    cli.run(main)
