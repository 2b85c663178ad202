"""From a clone, what `memattn-prepare multi30k` does: downloads Multi30k and prepares it.

python scripts/prepare_multi30k.py
"""

from memattn import prepare

if __name__ == "__main__":
    prepare.multi30k()
