"""Processes that can be killed, limited or signalled, and that start at once.

They are forked from a server that has imported torch already, and has done nothing else.
"""

import contextlib
import multiprocessing
import os
import sys

FRESH = multiprocessing.get_context("forkserver")
# torch._dynamo: every optimizer of torch imports it when it is made, which takes seconds.
FRESH.set_forkserver_preload(["heedful.commands", "heedful.train.start", "torch._dynamo", "torch.optim"])


def start(target, *args, said=os.devnull):
    """Runs `target(*args)`, which gives the exit status; what it says goes to the file `said`."""
    process = FRESH.Process(target=act, args=(str(said), target, args))
    process.start()
    return process


def act(said, target, args):
    # Its own output: pytest reads that of this process, and a killed one would leave it open.
    with open(said, "a", buffering=1) as file, contextlib.redirect_stdout(file):
        sys.stderr = file
        raise SystemExit(target(*args))


def finish(process, seconds=120):
    """The exit status; below 0 for the signal that ended it."""
    process.join(seconds)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"still running after {seconds} s")
    return process.exitcode


def status_of(target, *args, said=os.devnull):
    return finish(start(target, *args, said=said))
