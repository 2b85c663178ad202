"""Runs a command: parses its flags, reports an error in one line, and sets the exit status."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow is imported
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # several processes may share a GPU

import contextlib
import importlib
import inspect
import io
import logging
import re
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TextIO

from absl import app, flags
from absl import logging as absl_logging

from memattn import processes
from memattn.console import say, silence
from memattn.errors import ConfigError, DataError, LostWorkerError, RunError, one_line, reason

FAILURE, USAGE, INTERRUPTED = 1, 2, 130
REQUEUE = 138  # 128 + SIGUSR1, which asks a scheduler to start the job again
TRACEBACK = "MEMATTN_TRACEBACK"  # environment variable: 1 shows the stack trace of an error, too
_LONGEST_FLAG = 100  # characters of a flag's name
_HELP = {"-h", "-help", "--help"}
_MISSING_FLAG = re.compile(r"flags? .*: Flag (--\w+) must have a value other than None\.")


def _is_command() -> bool:
    """Returns whether the program is a command of this project, not a notebook or a test that imports this module."""
    program = os.path.abspath(getattr(sys.modules["__main__"], "__file__", None) or "")
    package = os.path.dirname(os.path.abspath(__file__))
    checkout = os.path.dirname(package)
    folders = package, os.path.join(checkout, "scripts"), os.path.join(checkout, "data")
    return os.path.basename(program).startswith("memattn-") or os.path.dirname(program) in folders


def _end_at_once(*_) -> None:
    """Ends the process at SIGINT, where KeyboardInterrupt would end in a stack trace."""
    try:
        os.write(2, b"error: interrupted\n")
    finally:
        os._exit(INTERRUPTED)


def _open_closed_streams() -> None:
    """Opens /dev/null in place of closed standard streams.

    Otherwise, the next file that is opened would get the number of the stream, and its messages.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
            if name != "stdin":
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (open until the end)


if _is_command():
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        # Names of files are in UTF-8 for TensorFlow and in configs, whatever the locale is: start again in that mode.
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONUTF8": "1"})
    _open_closed_streams()
    # Importing TensorFlow takes seconds, and ends in a stack trace or SIGABRT where Python raises KeyboardInterrupt.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_at_once)  # until `_guarded`


def run(
    main: Callable[..., int | None],
    *,
    positional: bool = False,
    tensorflow: bool = False,
    check: Callable[..., None] | None = None,
) -> None:
    """Parses absl's flags, calls `main`, and ends the process with the status that `main` returns.

    If the environment variable `processes.PARENT` holds the id of a process, the command ends when that process does.

    Args:
      main: the work of the command. Its docstring, or else that of its module, is what --help prints.
      positional: whether `main` gets the arguments that are not flags; otherwise they are an error.
      tensorflow: whether to import TensorFlow, after the flags are parsed: --help and wrong flags do not wait for it.
      check: gets the arguments of `main`, and raises ConfigError for flags that contradict each other. It is called
        before TensorFlow is imported.
    """

    def start(argv: list[str]) -> NoReturn:
        if check:
            _check(check, argv[1:])
        if tensorflow:
            with _filtered_stderr():
                importlib.import_module("tensorflow")
        if parent := os.environ.pop(processes.PARENT, None):
            processes.end_with(int(parent))
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {one_line(str(message))}", sys.stderr)
        sys.exit(_guarded(main, argv[1:]))

    with _patient_output():
        if _HELP & set(sys.argv[1:]):
            _print_help(main)
            sys.exit(0)
        app.run(start, flags_parser=lambda argv: _parse_flags(argv, positional))


def run_one(commands: Mapping[str, Callable[[], None]], description: str) -> None:
    """Calls the command that the first argument names; the command parses the remaining arguments.

    In place of a command, --help prints the description.
    """
    name = "".join(sys.argv[1:2])
    if name in _HELP:
        with _patient_output():
            print(description.strip())
        sys.exit(0)
    if name not in commands:
        from memattn.config.schema import did_you_mean

        problem = f"{name}: not a command" if name else "no command"
        advice = f"give one of {', '.join(commands)}; see --help"
        _fail("; ".join([problem, *did_you_mean(name, commands), advice]), USAGE)
    del sys.argv[1]
    commands[name]()


@contextlib.contextmanager
def _filtered_stderr() -> Iterator[None]:
    """Passes standard error through `startup_filter` while TensorFlow is imported.

    Newer versions ignore TF_CPP_MIN_LOG_LEVEL until absl's logging is initialized. The filter is a separate process, so
    that it still passes on the last message if the import aborts this process.
    """
    stderr = os.dup(2)
    read_end, write_end = os.pipe()
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup_filter.py")
    command = [sys.executable, "-I", "-S", program]
    with subprocess.Popen(command, stdin=read_end, stdout=stderr, start_new_session=True):
        os.close(read_end)
        os.dup2(write_end, 2)
        os.close(write_end)
        try:
            yield
        finally:
            os.dup2(stderr, 2)  # closes the pipe, which ends the filter
            os.close(stderr)


class _Output:
    """Standard output that discards what is printed once its reader is gone, so that the work is not lost."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            silence()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            silence()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _patient_output() -> Iterator[None]:
    """Makes standard output an `_Output`, which prints characters that its encoding lacks as their numbers."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    with contextlib.redirect_stdout(_Output(sys.stdout)) as output:
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Python reports a full disk at exit
                output.flush()


def _print_help(main: Callable[..., int | None]) -> None:
    """Prints the docstring of `main`, or else of its module, and the flags of all modules of this project.

    absl prints the module's docstring only under `python -m`, and other modules' flags not at all.
    """
    module = main.__module__
    text = inspect.getdoc(main) or inspect.getdoc(sys.modules[module]) or ""
    key_module = sys.argv[0] if module == "__main__" else module
    other_modules = [
        name
        for name in flags.FLAGS.flags_by_module_dict()
        if name.startswith(("memattn.", "benchmarks.")) and name != key_module
    ]
    print("\n".join([text, *map(flags.FLAGS.module_help, [key_module, *other_modules])]))


def _parse_flags(argv: list[str], positional: bool) -> list[str]:
    for argument in argv:
        if not _is_utf8(argument):
            _fail(f"{argument}: not UTF-8 text", USAGE)
        name = argument.partition("=")[0]
        if name.startswith("-") and len(name) > _LONGEST_FLAG:  # absl compares it with all flags, by recursion
            _fail(f"{name}: not a flag; see --help", USAGE)
    try:
        arguments = flags.FLAGS(argv)
    except flags.Error as error:
        problems = "; ".join(_MISSING_FLAG.sub(r"\1 is missing", line) for line in str(error).splitlines())
        _fail(f"{problems}; see --help", USAGE)
    if len(arguments) > 1 and not positional:
        _fail(f"{arguments[1]}: not a flag; all arguments are flags, see --help", USAGE)
    return arguments


def _is_utf8(argument: str) -> bool:
    """Returns whether an argument was UTF-8; TensorFlow takes no other paths, and configs cannot name them."""
    try:
        argument.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check(check: Callable[..., None], arguments: Sequence[str]) -> None:
    """Calls `check`; ends the process with one line for a ConfigError."""
    try:
        check(*arguments)
    except ConfigError as error:
        _fail(str(error), USAGE)


def _guarded(main: Callable[..., int | None], arguments: Sequence[str] = ()) -> int:
    """Calls `main` and returns its status; ends the process with one line for an error that a user can mend."""
    absl_logging.set_verbosity(absl_logging.WARNING)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # no warnings of retracing, which each shape needs
    try:
        if signal.getsignal(signal.SIGINT) is _end_at_once:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return main(*arguments) or 0
    except ConfigError as error:
        _fail(str(error), USAGE)
    except LostWorkerError as error:
        _fail(str(error), REQUEUE)
    except (DataError, RunError) as error:
        _fail(str(error), FAILURE)
    except OSError as error:
        _fail(f"{error.filename or 'input/output'}: {error.strerror or error}", FAILURE)
    except MemoryError as error:
        _fail(f"out of memory: {error}".removesuffix(": "), FAILURE)
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)
    except Exception as error:
        tensorflow = sys.modules.get("tensorflow")  # not every command imports it
        if tensorflow is None or not isinstance(error, tensorflow.errors.OpError):
            raise
        _fail(f"TensorFlow: {reason(error)}", FAILURE)


def _fail(message: str, status: int) -> NoReturn:
    """Ends the process with one line; if MEMATTN_TRACEBACK=1 is set, after the stack trace of the current error."""
    if os.environ.get(TRACEBACK) == "1" and sys.exc_info()[0]:
        traceback.print_exc()
    print(f"error: {one_line(message)}", file=sys.stderr)
    sys.exit(status)
