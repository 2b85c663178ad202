"""Threads that a test waits for."""

import threading
import time


def second(do, said):
    """Calls do() in a thread; waits until said() is true while it runs; returns the thread."""
    thread = threading.Thread(target=do)
    thread.start()
    deadline = time.monotonic() + 20
    while not said():
        assert thread.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)
    return thread
