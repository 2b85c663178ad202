"""Runs commands by the hundred with one import of TensorFlow: a process forked for each."""

import concurrent.futures
import contextlib
import importlib
import json
import os
import queue
import resource
import runpy
import signal
import subprocess
import sys
import tempfile

from helpers.repository import ROOT

LONGEST = 120  # seconds of a command
MEMORY = 12 << 30  # bytes of its address space


@contextlib.contextmanager
def commands(servers):
    """Starts so many servers; gives run(folder, module, arguments...) and map(run, cases), so many at once.

    run does `python -m module arguments` in a folder and returns [status, stdout, stderr]. The status is minus the
    number of the signal that ended the command, -14 if it took too long.
    """
    settings = {
        "env": {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "scripts", ROOT / "tests")))},
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
    }
    started = [
        subprocess.Popen([sys.executable, "-m", "helpers.fork_server"], **settings, text=True) for _ in range(servers)
    ]
    idle = queue.Queue()
    for server in started:
        idle.put(server)

    def run(*command):
        server = idle.get()
        try:
            print(json.dumps([str(part) for part in command]), file=server.stdin, flush=True)
            return json.loads(server.stdout.readline())
        finally:
            idle.put(server)

    with concurrent.futures.ThreadPoolExecutor(servers) as pool:
        yield run, pool.map
    for server in started:
        server.communicate()  # closes its standard input, and so ends it
        assert server.returncode == 0


def serve():
    """Answers each line of JSON, [folder, module, arguments...], with one of [status, stdout, stderr]."""
    importlib.import_module("memattn.training.validation")  # and with it all that takes long to import
    for line in sys.stdin:
        folder, module, *arguments = json.loads(line)
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            child = os.fork()
            if not child:
                os.chdir(folder)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(stdout.fileno(), 1)
                os.dup2(stderr.fileno(), 2)
                run_alone(module, arguments)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            texts = []
            for file in (stdout, stderr):
                file.seek(0)
                texts.append(file.read().decode("utf-8", "replace"))
        print(json.dumps([status, *texts]), flush=True)


def run_alone(module, arguments):
    """Runs a module as this process' last deed."""
    signal.alarm(LONGEST)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.argv[1:] = arguments
    sys.orig_argv[1:] = ["-m", module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as stopped:
        sys.stdout.flush()
        os._exit(stopped.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    os._exit(70)


if __name__ == "__main__":
    serve()
