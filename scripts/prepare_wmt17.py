"""Downloads a language pair of WMT'17 and prepares it, as `memattn-prepare wmt17` does, from a clone.

python scripts/prepare_wmt17.py --pair en-de
"""

from memattn import prepare

if __name__ == "__main__":
    prepare.wmt17()
