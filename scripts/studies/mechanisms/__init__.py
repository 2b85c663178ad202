"""Attention mechanisms that only studies have, and the references by which configs name them.

Python finds them if the folder `scripts` is on its path. `scripts/reproduce.py` puts it there; for other commands, set
PYTHONPATH=scripts.
"""

MEMORY_VARIANT = "studies.mechanisms.memory_variant:MemoryVariantAttention"
NESTED_MEMORY = "studies.mechanisms.nested_memory:NestedMemoryAttention"
