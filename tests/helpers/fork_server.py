"""Runs hundreds of commands with a single import of TensorFlow: a server forks a process for each command."""

import contextlib
import importlib
import json
import os
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
import threading

from helpers.repository import ROOT

LONGEST = 120  # seconds that a command may take
MEMORY = 12 << 30  # bytes of data that a command may use; its address space grows with the number of cores


@contextlib.contextmanager
def commands():
    """Starts a server; yields run(folder, module, arguments..., stdin="", may_fail=False).

    `run` does `python -m module arguments` in a folder and returns the completed process. Its exit status must be 0,
    unless it may fail; where a signal ended it, the status is minus the signal's number: -14 if it took too long.
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "scripts", ROOT / "tests")))}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server, lock = subprocess.Popen([sys.executable, "-m", "helpers.fork_server"], env=env, **pipes), threading.Lock()

    def run(*command, stdin="", may_fail=False):
        with lock:
            print(json.dumps([stdin, *map(str, command)]), file=server.stdin, flush=True)
            result = subprocess.CompletedProcess(command, *json.loads(server.stdout.readline()))
        assert may_fail or result.returncode == 0, f"status {result.returncode}: {result.stderr[-3000:]}"
        return result

    yield run
    server.communicate()  # closes standard input, which ends the server
    assert server.returncode == 0


def serve():
    """Reads lines of JSON, [stdin, folder, module, arguments...]; answers each by one of [status, stdout, stderr]."""
    importlib.import_module("memattn.training.validation")  # imports all modules that take long to import
    for line in sys.stdin:
        text, folder, module, *arguments = json.loads(line)
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            stdin.write(text.encode())
            stdin.seek(0)
            child = os.fork()
            if not child:
                os.chdir(folder)
                for descriptor, file in enumerate((stdin, stdout, stderr)):
                    os.dup2(file.fileno(), descriptor)
                run_alone(module, arguments)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            texts = []
            for file in (stdout, stderr):
                file.seek(0)
                texts.append(file.read().decode("utf-8", "replace"))
        print(json.dumps([status, *texts]), flush=True)


def run_alone(module, arguments):
    """Runs a module and ends this process."""
    signal.alarm(LONGEST)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    sys.argv[1:] = arguments
    sys.orig_argv[1:] = ["-m", module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as exit_:
        sys.stdout.flush()
        os._exit(exit_.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    os._exit(70)


if __name__ == "__main__":
    serve()
