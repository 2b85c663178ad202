"""Bytes that work needs, against those that the machine has."""

import contextlib
import functools
import os
import shutil

from memattn.errors import ConfigError

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container


@functools.cache
def total() -> int:
    """Bytes of memory that processes may use here: the machine's, or in a container fewer."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _LIMITS:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            found.append(int(file.read()))
    return min(found)


def shown(size: float) -> str:
    """Bytes in readable form."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} PB"


def check(needed: float, key: str, what: str) -> None:
    """Raises ConfigError, which names a config key and what it makes too large, if the machine lacks the memory."""
    if needed > total():
        raise ConfigError(f"{key}: {what} takes about {shown(needed)}, and the memory here is {shown(total())}")


def check_disk(needed: float, folder: str, key: str, what: str) -> None:
    """Raises ConfigError if the disk of a folder, which may not exist yet, lacks the room."""
    existing = os.path.abspath(folder)
    while not os.path.isdir(existing) and existing != os.path.dirname(existing):
        existing = os.path.dirname(existing)
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise ConfigError(f"{key}: {what} takes about {shown(needed)}, and the disk of {folder} has {shown(free)} left")
