"""Writes the corpora of the copy task, as `memattn-prepare copy` does, from a clone.

python scripts/make_copy_data.py
"""

from memattn import prepare

if __name__ == "__main__":
    prepare.copy()
