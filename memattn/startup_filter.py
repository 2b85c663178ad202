"""A program that copies its input to its output without the lines that TensorFlow logs while it is imported.

`memattn.cli` runs this file, which imports no package, so that it starts at once.
"""

import re
import sys

# Information, the notice before it, and warnings about libraries that TensorFlow itself registers twice.
_NOISE = re.compile(
    rb"I0000 |WARNING: All log messages before absl|.*(Unable to register cu\w+ factory|computation placer already)"
)


def main() -> None:
    for line in sys.stdin.buffer:
        if not _NOISE.match(line):
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
