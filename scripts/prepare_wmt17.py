"""From a clone, what `memattn-prepare wmt17` does: downloads a language pair of WMT'17 and prepares it.

python scripts/prepare_wmt17.py --pair en-de
"""

from memattn import prepare

if __name__ == "__main__":
    prepare.wmt17()
