"""Two real workers of a distributed training: processes that run functions named by a test."""

import contextlib
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading

from helpers.repository import ROOT

LONGEST = 300  # seconds that a function may take


class WorkerPair:
    """Two workers. If a worker does not answer a call, the next call starts two new workers."""

    def __init__(self):
        self._workers = []

    def __call__(self, module, function, *arguments):
        """Calls function(rank, strategy, *arguments) on both workers; returns a list of both results.

        The result is [type, text] where the function raised an exception. Where a worker ended or took longer than
        LONGEST, the result is ["NoAnswer", last lines of standard error].
        """
        if not self._workers:
            self._workers = _start()
        for worker, _ in self._workers:
            with contextlib.suppress(BrokenPipeError):
                print(json.dumps([module, function, *arguments]), file=worker.stdin, flush=True)
        timer = threading.Timer(LONGEST, lambda: [worker.kill() for worker, _ in self._workers])
        timer.start()
        answers = [worker.stdout.readline() for worker, _ in self._workers]
        timer.cancel()
        if not all(answers):
            last_lines = self.end()
            return [
                json.loads(answer) if answer else ["NoAnswer", lines]
                for answer, lines in zip(answers, last_lines, strict=True)
            ]
        return [json.loads(answer) for answer in answers]

    def end(self):
        """Ends both workers; returns the last lines of standard error of each."""
        last_lines = []
        for worker, errors in self._workers:
            worker.kill()
            worker.communicate()
            errors.seek(0)
            last_lines.append(errors.read()[-2000:])
            errors.close()
        self._workers = []
        return last_lines


def tf_configs():
    """Returns the TF_CONFIG of each of two workers, whose ports are free."""
    with contextlib.ExitStack() as sockets:
        free = [sockets.enter_context(socket.socket()) for _ in range(2)]
        for free_socket in free:
            free_socket.bind(("localhost", 0))
        cluster = {"worker": [f"localhost:{free_socket.getsockname()[1]}" for free_socket in free]}
    return [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}}) for rank in range(2)]


def _start():
    """Starts two workers of a cluster; returns pairs of a process and the file of its standard error."""
    path = os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "tests" / "training")))
    command, workers = [sys.executable, "-m", "helpers.worker_pair"], []
    for tf_config in tf_configs():
        env = {**os.environ, "PYTHONPATH": path, "TF_CONFIG": tf_config}
        errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (closed by end)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
        workers.append((subprocess.Popen(command, env=env, text=True, **pipes), errors))
    return workers


def serve():
    """Reads lines of JSON, [module, function, arguments...]; answers each by a line of JSON, the function's result."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    distribution = importlib.import_module("memattn.training.distribution")
    tf = importlib.import_module("tensorflow")
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # as in conftest
    strategy = distribution.several_machines()
    for line in sys.stdin:
        module, function, *arguments = json.loads(line)
        try:
            task = getattr(importlib.import_module(module), function)
            answer = task(strategy.cluster_resolver.task_id, strategy, *arguments)
        except Exception as error:
            answer = [type(error).__name__, str(error)]
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve()
