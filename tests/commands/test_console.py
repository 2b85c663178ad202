"""The output of commands: lines from any thread, and a progress line at the bottom of a terminal."""

import sys
import threading

from helpers.terminal import terminal

from memattn import console


def test_the_line_on_progress_stays_below_what_is_printed_and_is_erased_at_the_end(monkeypatch):
    counts = iter(range(10))
    with terminal(monkeypatch) as output, console.showing(lambda: [f"step {next(counts)}", "a loss"]):
        console.say("first")
        console.redraw()
        console.say("2nd")
    assert output.getvalue().replace("\r\n", "\n").split("\r")[::2] == [
        "step 0  a loss",
        "first\nstep 1  a loss",
        "step 2  a loss",
        "2nd\nstep 3  a loss",
        "",
    ]
    assert output.screen == ["first", "2nd", ""]


def test_the_line_on_progress_is_cut_at_the_width_of_the_terminal(monkeypatch):
    parts = ["step 10", "loss 1.5", "best 9"]
    for columns, expected in ((26, "step 10  loss 1.5  best 9"), (25, "step 10  loss 1.5  best "), (5, "step")):
        with terminal(monkeypatch, columns) as output, console.showing(lambda: parts):
            pass
        drawn, *_ = output.getvalue().split("\r")
        assert drawn == expected


def test_lines_of_several_threads_stay_whole(monkeypatch):
    def work(name):
        for _ in range(100):
            console.say(name * 20)
            console.redraw()

    with terminal(monkeypatch) as output, console.showing(lambda: ["progress " * 3]):
        threads = [threading.Thread(target=work, args=[name]) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(output.screen) == [""] + [name * 20 for name in "abc" for _ in range(100)]


def test_a_message_on_standard_error_does_not_run_into_the_line_on_progress(monkeypatch):
    with terminal(monkeypatch) as output, console.showing(lambda: ["progress"]):
        monkeypatch.setattr("sys.stderr", sys.stdout)  # both are the same terminal
        console.say("a warning", sys.stderr)
    assert output.screen == ["a warning", ""]


def test_there_is_no_line_on_progress_without_a_terminal(capsys):
    with console.showing(lambda: ["progress"]):
        console.say("a line")
        console.redraw()
    assert capsys.readouterr().out == "a line\n"
