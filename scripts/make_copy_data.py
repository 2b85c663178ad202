"""From a clone, what `memattn-prepare copy` does: writes the copy task's corpora.

python scripts/make_copy_data.py
"""

from memattn import prepare

if __name__ == "__main__":
    prepare.copy()
