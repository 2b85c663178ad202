"""The output of commands: lines from any thread, above the progress bars of a terminal."""

import sys
import threading

from helpers.terminal import terminal
from tqdm import tqdm

from memattn import console


def test_lines_of_several_threads_stay_whole_above_a_progress_bar(monkeypatch):
    def work(name):
        for _ in range(100):
            console.say(name * 20)
            bar.update()

    with terminal(monkeypatch) as output, tqdm(total=300, leave=False, file=sys.stdout) as bar:
        threads = [threading.Thread(target=work, args=[name]) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(output.screen) == [""] + [name * 20 for name in "abc" for _ in range(100)]


def test_a_message_on_standard_error_does_not_run_into_a_progress_bar(monkeypatch):
    with terminal(monkeypatch) as output, tqdm(total=3, leave=False, file=sys.stdout):
        monkeypatch.setattr("sys.stderr", sys.stdout)  # both are the same terminal
        console.say("a warning", sys.stderr)
    assert output.screen == ["a warning", ""]


def test_nothing_is_printed_where_standard_output_is_closed(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)  # as Python has it after >&-
    console.say("a line")
