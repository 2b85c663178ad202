"""Threads that a test waits for."""

import threading
import time


def start_thread(work, until):
    """Calls work() in a thread and returns the thread once until() is true, 20 seconds later at most."""
    thread = threading.Thread(target=work)
    thread.start()
    deadline = time.monotonic() + 20
    while not until():
        assert thread.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)
    return thread
