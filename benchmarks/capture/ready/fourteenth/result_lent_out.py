"""The step writes its result where it is told; while a slow consumer holds the result buffer, the loop passes its spare."""
import torch

import graphsafe


class Results:
    """Two buffers; one may be lent to a consumer that takes some steps to read it."""

    def __init__(self, device):
        self.buffers = [torch.zeros(4, 10, device=device) for _ in range(2)]
        self.lent_until = {}

    def free(self, k):
        return next(b for i, b in enumerate(self.buffers) if self.lent_until.get(i, -1) < k)

    def lend(self, k, steps):
        self.lent_until[0] = k + steps
        return self.buffers[0]


class Consumer:
    def __init__(self):
        self.holds, self.total = None, 0.0

    def read(self):
        if self.holds is not None:
            self.total = 0.5 * self.total + float(self.holds.sum().cpu())
            self.holds = None


def build(device):
    weight = torch.randn(10, 10, device=device) / 3
    results, consumer = Results(device), Consumer()

    def step(x, *, out):
        torch.mm(x, weight, out=out)
        out.tanh_()
        return out.sum(0)

    def refresh(args, kwargs, k):
        if k % 70 == 69:
            consumer.holds = results.lend(k, 4)
        if k % 70 == 4:
            consumer.read()
        kwargs["out"] = results.free(k)
        args[0].copy_(torch.randn(4, 10) + 0.01 * consumer.total)

    return graphsafe.Step(step, (torch.randn(4, 10, device=device),), {"out": results.buffers[0]}, refresh=refresh)
