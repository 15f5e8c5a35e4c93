"""Whole-step training graph fed by a loader that stages batches on its own copy stream."""
import math
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F


def host_batches(count, rows, width, classes):
    g = torch.Generator().manual_seed(11)
    for _ in range(count):
        yield torch.randn(rows, width, generator=g), torch.randint(classes, (rows,), generator=g)


class Stager:
    """Copies the next host batch into the step's input slots while the device works."""

    def __init__(self, source, x_slot, y_slot):
        self.source = iter(source)
        self.x_slot, self.y_slot = x_slot, y_slot
        self.x_host = torch.empty(x_slot.shape, pin_memory=True)
        self.y_host = torch.empty(y_slot.shape, dtype=y_slot.dtype, pin_memory=True)
        self.lane = torch.cuda.Stream(x_slot.device)
        self.landed = torch.cuda.Event()

    def stage(self):
        pair = next(self.source, None)
        if pair is None:
            return False
        self.landed.synchronize()
        self.x_host.copy_(pair[0])
        self.y_host.copy_(pair[1])
        with torch.cuda.stream(self.lane):
            self.x_slot.copy_(self.x_host, non_blocking=True)
            self.y_slot.copy_(self.y_host, non_blocking=True)
            self.landed.record(self.lane)
        return True

    def ready(self):
        torch.cuda.current_stream(self.x_slot.device).wait_event(self.landed)


class GraphTrainer:
    def __init__(self, net, rows, width, device, base_lr=0.05, total=500):
        self.net, self.device = net, device
        self.base_lr, self.total = base_lr, total
        self.lr = base_lr
        self.x = torch.zeros(rows, width, device=device)
        self.y = torch.zeros(rows, dtype=torch.long, device=device)
        self.velocity = [torch.zeros_like(p) for p in net.parameters()]
        self.loss = None
        self.history = deque(maxlen=50)

    def _step(self):
        loss = F.cross_entropy(self.net(self.x), self.y)
        params = list(self.net.parameters())
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            for p, v, g in zip(params, self.velocity, grads):
                v.mul_(0.9).add_(g)
                p.sub_(v, alpha=self.lr)
        return loss.detach()

    def capture(self):
        s = torch.cuda.Stream(self.device)
        s.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(s):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream(self.device).wait_stream(s)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._step()

    def fit(self, source):
        stager = Stager(source, self.x, self.y)
        k, more = 0, stager.stage()
        while more:
            self.lr = 0.5 * self.base_lr * (1 + math.cos(math.pi * min(k / self.total, 1.0)))
            stager.ready()
            self.graph.replay()
            more = stager.stage()
            self.history.append(float(self.loss))
            k += 1
            if k % 100 == 0:
                print(f"step {k}: lr {self.lr:.4f}, loss {self.loss}")
        return sum(self.history) / max(len(self.history), 1)


def main():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    trainer = GraphTrainer(net, 512, 64, device)
    trainer.capture()
    print("mean loss", trainer.fit(host_batches(500, 512, 64, 10)))


if __name__ == "__main__":
    main()
