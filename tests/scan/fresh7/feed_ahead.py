"""Whole-step training graph with a loader that lands batches in a spare pair of slots while the step runs."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def host_batches(count, rows, width, classes):
    g = torch.Generator().manual_seed(11)
    for _ in range(count):
        yield torch.randn(rows, width, generator=g), torch.randint(classes, (rows,), generator=g)


class Feeder:
    """The copy lane waits until the step that used the slots is over, the step until the copy has landed."""

    def __init__(self, source, x_slot, y_slot):
        self.source = iter(source)
        self.x_slot, self.y_slot = x_slot, y_slot
        self.x_host = [torch.empty(x_slot.shape, pin_memory=True) for _ in range(2)]
        self.y_host = [torch.empty(y_slot.shape, dtype=y_slot.dtype, pin_memory=True) for _ in range(2)]
        self.landed = [torch.cuda.Event() for _ in range(2)]
        self.used = torch.cuda.Event()
        self.lane = torch.cuda.Stream(x_slot.device)
        self.turn = 0

    def stage(self):
        pair = next(self.source, None)
        if pair is None:
            return False
        i = self.turn % 2
        self.landed[i].synchronize()
        self.x_host[i].copy_(pair[0])
        self.y_host[i].copy_(pair[1])
        self.used.record(torch.cuda.current_stream(self.x_slot.device))
        with torch.cuda.stream(self.lane):
            self.lane.wait_event(self.used)
            self.x_slot.copy_(self.x_host[i], non_blocking=True)
            self.y_slot.copy_(self.y_host[i], non_blocking=True)
            self.landed[i].record(self.lane)
        self.turn += 1
        return True

    def ready(self):
        torch.cuda.current_stream(self.x_slot.device).wait_event(self.landed[(self.turn - 1) % 2])


class FeedTrainer:
    def __init__(self, net, rows, width, device, base_lr=0.05, total=500):
        self.net, self.device = net, device
        self.base_lr, self.total = base_lr, total
        self.lr = torch.full((), base_lr, device=device)
        self.x = torch.zeros(rows, width, device=device)
        self.y = torch.zeros(rows, dtype=torch.long, device=device)
        self.velocity = [torch.zeros_like(p) for p in net.parameters()]
        self.running = torch.zeros((), device=device)

    def _step(self):
        loss = F.cross_entropy(self.net(self.x), self.y)
        params = list(self.net.parameters())
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            for p, v, g in zip(params, self.velocity, grads):
                v.mul_(0.9).add_(g)
                p.sub_(v * self.lr)
            self.running.lerp_(loss.detach(), 0.05)

    def capture(self):
        state = [*self.net.parameters(), *self.velocity, self.running]
        kept = [t.detach().clone() for t in state]
        s = torch.cuda.Stream(self.device)
        s.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(s):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream(self.device).wait_stream(s)
        with torch.no_grad():
            for t, k in zip(state, kept):
                t.copy_(k)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._step()

    def fit(self, source):
        feeder = Feeder(source, self.x, self.y)
        k, more = 0, feeder.stage()
        while more:
            self.lr.fill_(0.5 * self.base_lr * (1 + math.cos(math.pi * min(k / self.total, 1.0))))
            feeder.ready()
            self.graph.replay()
            more = feeder.stage()
            k += 1
        return self.running


def main():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    trainer = FeedTrainer(net, 512, 64, device)
    trainer.capture()
    print("running loss", trainer.fit(host_batches(500, 512, 64, 10)).item())


if __name__ == "__main__":
    main()
