"""Starts a thread and waits for its effect."""

import threading
import time


def start_thread(work, until):
    """Calls work() in a new thread; returns the thread once until() is true, which must be within 20 seconds."""
    thread = threading.Thread(target=work)
    thread.start()
    deadline = time.monotonic() + 20
    while not until():
        assert thread.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)
    return thread
