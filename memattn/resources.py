"""Compares the bytes that work needs with those that the machine has."""

import contextlib
import functools
import os
import shutil

from memattn.errors import ConfigError

_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@functools.cache
def total_memory() -> int:
    """Returns the bytes of memory that processes may use: the machine's, or fewer in a container."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CONTAINER_LIMITS:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            limits.append(int(file.read()))
    return min(limits)


def readable(size: float) -> str:
    """Returns a number of bytes with a unit, such as "1.5 GB"."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 999.5:  # what has three digits once it is rounded
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} PB"


def check(needed: float, key: str, what: str) -> None:
    """Raises ConfigError if work needs more bytes of memory than there are.

    The error says how many bytes `what` takes, and names the config key that makes it so large.
    """
    if needed > total_memory():
        have = readable(total_memory())
        raise ConfigError(f"{key}: {what} takes about {readable(needed)}, and the memory here is {have}")


def check_disk(needed: float, folder: str, key: str, what: str) -> None:
    """Raises ConfigError if files need more bytes than the disk of a folder has left; the folder need not exist yet."""
    existing = os.path.abspath(folder)
    while not os.path.isdir(existing) and existing != os.path.dirname(existing):
        existing = os.path.dirname(existing)
    free = shutil.disk_usage(existing).free
    if needed > free:
        left = readable(free)
        raise ConfigError(f"{key}: {what} takes about {readable(needed)}, and the disk of {folder} has {left} left")
