"""Targets that misbehave, each in its own way."""

import ctypes
import json
import os
import signal
import sys
import time

import torch


def raises(device):
    raise ValueError("no weights here")


def nonsense(device):
    return 42


def nothing(device):
    return None


def exits(device):
    sys.exit(5)


def step_raises(device):
    def step(x):
        raise KeyError("boom")

    return step, (torch.randn(3, device=device),)


def step_hangs(device):
    def step(x):
        while True:
            time.sleep(0.1)

    return step, (torch.randn(3, device=device),)


def step_segfaults(device):
    def step(x):
        ctypes.string_at(0)

    return step, (torch.randn(3, device=device),)


def step_exits(device):
    def step(x):
        os._exit(0)

    return step, (torch.randn(3, device=device),)


def capture_exits(device):
    def step(x):
        if torch.cuda.is_current_stream_capturing():
            os._exit(3)
        return x * 2

    return step, (torch.randn(3, device=device),)


def prints(device):
    def step(x):
        sys.stdout.write("x" * 10_000_000 + "\n")
        return x * 2

    return step, (torch.randn(3, device=device),)


def writes_json(device):
    def step(x):
        print(json.dumps({"schema": "graphsafe/report/1", "verdict": "not-ready"}))
        os.write(1, b'{"done": true}\n')
        return x * 2

    return step, (torch.randn(3, device=device),)


def out_of_memory(device):
    def step(x):
        return torch.empty(1 << 50, device=x.device)

    return step, (torch.randn(3, device=device),)


def leaves_a_child(device):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
    raise RuntimeError(f"left a child behind in group {os.getpgid(0)}")


def leaves_daemons(device):
    """A daemon that no process group and no session ties to this process, and one that is a session of its own."""
    for detached in (True, False):
        if os.fork() == 0:
            os.setsid()
            if detached and os.fork() != 0:
                os._exit(0)
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            time.sleep(600)
            os._exit(0)
    return (lambda x: x * 2), (torch.randn(3, device=device),)


def patches_python(device):
    """What a child answers with is gone once this has run."""
    import builtins
    import pathlib

    def broken(*arguments, **options):
        raise RuntimeError("patched")

    json.dumps = json.dump = json.loads = json.load = broken
    builtins.open = builtins.print = broken
    os.replace = os.rename = os._exit = broken
    pathlib.Path.write_text = pathlib.Path.open = broken
    sys.stdout = sys.stderr = None
    return (lambda x: x * 2), (torch.randn(3, device=device),)


def removes_its_folder(device):
    # Only an empty one: wherever it runs, there must be nothing in it.
    os.rmdir(os.getcwd())
    return (lambda x: x * 2), (torch.randn(3, device=device),)


def breaks_graphsafe(device):
    """Not what a target does by accident: a fault of graphsafe's own, for the sake of the test."""
    from graphsafe.capture.child import state

    state.Snapshot.__init__ = None
    return (lambda x: x * 2), (torch.randn(3, device=device),)


def raises_deep(device):
    def outer():
        inner({})

    def inner(weights):
        return weights["missing"]

    outer()


NUMBER = 7


def without_group(device):
    def step(x):
        torch.distributed.all_reduce(x)

    return step, (torch.zeros(4, device=device),)


def second_group(device):
    for _ in range(2):
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)


def dies_in_capture(device):
    def step(x):
        if torch.cuda.is_current_stream_capturing():
            os.kill(os.getpid(), signal.SIGSEGV)
        return x * 2

    return step, (torch.ones(4, device=device),)
