"""Two real workers of one training: processes that run the functions which a test names."""

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
    """Two workers. Once one has not answered, the next call starts two new ones."""

    def __init__(self):
        self._workers = []

    def __call__(self, module, function, *arguments):
        """Calls function(rank, strategy, *arguments) on both; returns their results.

        The result is [type, text] of the exception that was raised, and ["NoAnswer", last lines of standard error] of
        a worker that ended or took longer than LONGEST.
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
            lines = self.end()
            return [
                json.loads(answer) if answer else ["NoAnswer", last]
                for answer, last in zip(answers, lines, strict=True)
            ]
        return [json.loads(answer) for answer in answers]

    def end(self):
        """Ends both; returns the last lines of each one's standard error."""
        last = []
        for worker, errors in self._workers:
            worker.kill()
            worker.communicate()
            errors.seek(0)
            last.append(errors.read()[-2000:])
            errors.close()
        self._workers = []
        return last


def _start():
    """Starts two workers of one cluster; returns each process with the file of its standard error."""
    with contextlib.ExitStack() as sockets:
        free = [sockets.enter_context(socket.socket()) for _ in range(2)]
        for each in free:
            each.bind(("localhost", 0))
        cluster = {"worker": [f"localhost:{each.getsockname()[1]}" for each in free]}
    path = os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "tests" / "training")))
    workers = []
    for rank in range(2):
        task = {"cluster": cluster, "task": {"type": "worker", "index": rank}}
        env = {**os.environ, "PYTHONPATH": path, "TF_CONFIG": json.dumps(task)}
        errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (closed by end)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
        workers.append(
            (subprocess.Popen([sys.executable, "-m", "helpers.worker_pair"], env=env, text=True, **pipes), errors)
        )
    return workers


def serve():
    """Answers each line of JSON, [module, function, arguments...], with one: what the function returned or raised."""
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
