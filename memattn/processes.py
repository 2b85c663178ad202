"""Processes that end when the one that started them is gone."""

import os
import signal
import threading
import time

PARENT = "MEMATTN_PARENT"  # variable in the environment of a command: the process that it ends with


def end_with(parent: int) -> None:
    """Sends this process SIGTERM once `parent`, the process that started it, is gone, however that ended."""

    def watch():
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
