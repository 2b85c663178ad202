"""From a clone, what `memattn-prepare parallel` does: prepares parallel text of your own.

python scripts/prepare_parallel.py --train text/train --valid text/dev --source en --target de --folder data/my_corpus
"""

from memattn import prepare

if __name__ == "__main__":
    prepare.parallel()
