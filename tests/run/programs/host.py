"""Pinned host memory that a graph copies from, written again without a wait; each faulty line says so, and sound code
stands beside."""

import numpy as np
import torch


class Step:
    def __init__(self):
        self.host = torch.zeros(8, pin_memory=True)
        self.view = self.host.numpy()
        self.x = torch.zeros(8, device="cuda")
        self.done = torch.cuda.Event()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.x.copy_(self.host, non_blocking=True)
            self.out = self.x * 2

    def replay(self):
        self.graph.replay()
        self.done.record()


def numpy_view(step, k):
    step.view[:4] = k  # expect: GS714
    step.replay()


def numpy_function(step, k):
    np.copyto(step.view, k)  # expect: GS714
    step.replay()


def other_view(step, k):
    rows = step.host[2:].numpy()
    rows += k  # expect: GS714
    step.replay()


def tensor(step, k):
    step.host[:4] = k  # expect: GS714
    step.replay()


def before_the_wait(step, k):
    step.host.fill_(k)  # expect: GS714
    torch.cuda.synchronize()
    step.replay()


def unseen(step, k):
    memoryview(step.view).cast("B")[:4] = bytes([k] * 4)
    step.graph.replay()  # expect: GS714


def event_waited_for(step, k):
    step.done.synchronize()
    step.view[:4] = k
    step.replay()


def event_asked(step, k):
    while not step.done.query():
        pass
    step.view[:4] = k
    step.replay()


def stream_asked(step, k):
    while not torch.cuda.current_stream().query():
        pass
    step.view[:4] = k
    step.replay()


def result_read(step, k):
    step.out.sum().item()
    step.view[:4] = k
    step.replay()


def copied_back(step, k):
    """The device writes, in the order of its stream."""
    step.host.copy_(step.out, non_blocking=True)
    step.replay()


CASES = [numpy_view, numpy_function, other_view, tensor, before_the_wait, unseen]
CASES += [event_waited_for, event_asked, stream_asked, result_read, copied_back]
for case, step in [(case, Step()) for case in CASES]:
    for k in range(4):
        case(step, k + 1)
print("done")
