"""Runs a command: parses its flags, reports an error in one line, and sets the exit status."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow is imported
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # several processes may share a GPU

import importlib
import inspect
import logging
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from absl import app, flags
from absl import logging as absl_logging

from memattn import processes
from memattn.console import say
from memattn.errors import ConfigError, DataError, LostWorkerError, RunError, printable, reason

FAILURE, USAGE, INTERRUPTED = 1, 2, 130
REQUEUE = 138  # 128 + SIGUSR1, which asks a scheduler to start the job again
TRACEBACK = "MEMATTN_TRACEBACK"  # environment variable: 1 shows the stack trace of an error, too
_HELP = {"-h", "-help", "--help"}
_WORDS = {  # patterns in messages of absl and of Python, and what is written instead
    r"flags? .*: Flag (--\w+) must have a value other than None\.": r"\1 is missing",
    r"invalid literal for int\(\) with base 10: .*": "expected an int",
    r"could not convert string to float: .*": "expected a number",
    r"\('Non-boolean argument to boolean flag', .*\)": "expected true or false",
}


def run(
    main: Callable[..., int | None],
    *,
    tensorflow: bool = False,
    check: Callable[..., None] | None = None,
) -> None:
    """Parses absl's flags, calls `main`, and ends the process with the status that `main` returns.

    If the environment variable `processes.PARENT` holds the id of a process, the command ends when that process does.

    Args:
      main: the work of the command. Its docstring, or else that of its module, is what --help prints. Arguments that
        are not flags are passed to it if it has parameters; otherwise they are an error.
      tensorflow: whether to import TensorFlow, after the flags are parsed: --help and wrong flags do not wait for it.
      check: gets the arguments of `main`, and raises ConfigError for flags that contradict each other. It is called
        before TensorFlow is imported.
    """

    def start(argv: list[str]) -> NoReturn:
        if check:
            _guarded(check, argv[1:])
        if tensorflow:
            handler = signal.signal(signal.SIGINT, signal.SIG_DFL)  # the import aborts on KeyboardInterrupt
            importlib.import_module("tensorflow")
            signal.signal(signal.SIGINT, handler)
        if parent := os.environ.pop(processes.PARENT, None):
            processes.end_with(int(parent))
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {printable(str(message))}", sys.stderr)
        sys.exit(_guarded(main, argv[1:]))

    if _HELP & set(sys.argv[1:]):
        _print_help(main)
        sys.exit(0)
    takes_arguments = bool(inspect.signature(main).parameters)
    app.run(start, flags_parser=lambda argv: _parse_flags(argv, takes_arguments))


def run_one(commands: Mapping[str, Callable[[], None]], description: str) -> None:
    """Calls the command that the first argument names; the command parses the remaining arguments.

    In place of a command, --help prints the description.
    """
    name = "".join(sys.argv[1:2])
    if name in _HELP:
        print(description.strip())
        sys.exit(0)
    if name not in commands:
        problem = f"{name}: not a command" if name else "no command"
        _fail(f"{problem}; give one of {', '.join(commands)}; see --help", USAGE)
    del sys.argv[1]
    commands[name]()


def _print_help(main: Callable[..., int | None]) -> None:
    """Prints the docstring of `main`, or else of its module, and the flags of all modules of this project.

    absl prints the module's docstring only under `python -m`, and other modules' flags not at all.
    """
    module = main.__module__
    text = inspect.getdoc(main) or inspect.getdoc(sys.modules[module]) or ""
    key_module = sys.argv[0] if module == "__main__" else module
    modules = flags.FLAGS.flags_by_module_dict()
    other_modules = [name for name in modules if not name.startswith("absl.") and name != key_module]
    print("\n".join([text, *map(flags.FLAGS.module_help, [key_module, *other_modules])]))


def _parse_flags(argv: list[str], takes_arguments: bool) -> list[str]:
    try:
        arguments = flags.FLAGS(argv)
    except flags.Error as error:
        problems = str(error)
        for words, ours in _WORDS.items():
            problems = re.sub(words, ours, problems)
        _fail(f"{'; '.join(problems.splitlines())}; see --help", USAGE)
    given = [(f"--{name}", flags.FLAGS[name].value) for name in flags.FLAGS if flags.FLAGS[name].present]
    for name, value in [*given, *(("an argument", argument) for argument in arguments[1:])]:
        if value in ("", []) or isinstance(value, list) and "" in value:  # as an unset variable of the shell leaves it
            _fail(f"{name} is empty; give a value, or leave it out", USAGE)
    if len(arguments) > 1 and not takes_arguments:
        _fail(f"{arguments[1]}: not a flag; all arguments are flags, see --help", USAGE)
    return arguments


def _guarded(main: Callable[..., int | None], arguments: Sequence[str] = ()) -> int:
    """Calls `main` and returns its status; ends the process with one line for an error that a user can mend."""
    absl_logging.set_verbosity(absl_logging.WARNING)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # no warnings of retracing, which each shape needs
    try:
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
        _fail(f"out of memory: {error}", FAILURE)
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
    print(f"error: {printable(message)}", file=sys.stderr)
    sys.exit(status)
