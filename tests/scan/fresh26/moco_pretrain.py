"""Momentum-contrast pre-training on synthetic spectra; one captured training step, cosine schedule, key queue."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class SpectrumEncoder(nn.Module):
    def __init__(self, bins=48, width=32, dim=16):
        super().__init__()
        self.conv = nn.Conv1d(1, 8, 5, stride=2, padding=2)
        self.fc = nn.Linear(8 * (bins // 2), width)
        self.proj = nn.Linear(width, dim)

    def forward(self, x):
        h = F.relu(self.conv(x.unsqueeze(1))).flatten(1)
        return F.normalize(self.proj(F.relu(self.fc(h))), dim=-1)


class KeyQueue:
    def __init__(self, size, dim, device):
        self.keys = F.normalize(torch.randn(size, dim, device=device), dim=-1)
        self.head = torch.zeros((), dtype=torch.long, device=device)
        self.lane = torch.arange(size, device=device)

    def enqueue(self, keys):
        slots = (self.head + self.lane[: keys.shape[0]]) % self.keys.shape[0]
        self.keys.index_copy_(0, slots, keys)
        self.head.add_(keys.shape[0]).remainder_(self.keys.shape[0])


class SpectraSource:
    """A pinned bank of spectra, written once; batches are contiguous rows in an order drawn per epoch."""

    def __init__(self, batch, bins, batches=10):
        self.gen = torch.Generator().manual_seed(21)
        centre = torch.rand(batch * batches, 1, generator=self.gen)
        axis = torch.linspace(0, 1, bins)
        self.bank = torch.exp(-((axis - centre) / 0.08) ** 2).pin_memory()
        self.batch, self.batches = batch, batches

    def epoch(self):
        for slot in torch.randperm(self.batches, generator=self.gen).tolist():
            yield self.bank[slot * self.batch:(slot + 1) * self.batch]


class MomentumContrast:
    def __init__(self, batch, bins, device, queue=64, temperature=0.2, momentum=0.98):
        self.temperature, self.momentum = temperature, momentum
        self.query_net = SpectrumEncoder(bins).to(device)
        self.key_net = SpectrumEncoder(bins).to(device).requires_grad_(False)
        self.key_net.load_state_dict(self.query_net.state_dict())
        self.queue = KeyQueue(queue, 16, device)
        self.lr = torch.zeros((), device=device)
        self.velocity = [torch.zeros_like(p) for p in self.query_net.parameters()]
        self.batch = torch.zeros(batch, bins, device=device)
        self.target = torch.zeros(batch, dtype=torch.long, device=device)

    def augment(self, x):
        gain = 1.0 + 0.2 * torch.randn(x.shape[0], 1, device=x.device)
        return gain * x + 0.05 * torch.randn_like(x)

    def step(self):
        query = self.query_net(self.augment(self.batch))
        with torch.no_grad():
            for k, q in zip(self.key_net.parameters(), self.query_net.parameters()):
                k.mul_(self.momentum).add_(q, alpha=1.0 - self.momentum)
            key = self.key_net(self.augment(self.batch))
        positive = (query * key).sum(-1, keepdim=True)
        logits = torch.cat((positive, query @ self.queue.keys.T.clone()), dim=1) / self.temperature
        loss = F.cross_entropy(logits, self.target)
        grads = torch.autograd.grad(loss, list(self.query_net.parameters()))
        with torch.no_grad():
            for p, v, g in zip(self.query_net.parameters(), self.velocity, grads):
                v.mul_(0.9).add_(g)
                p.sub_(self.lr * v)
            self.queue.enqueue(key)
        return loss.detach()


class Pretrainer:
    def __init__(self, method, source, total, peak=0.05):
        self.method, self.source, self.total, self.peak = method, source, total, peak
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                method.step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = method.step()

    def run(self, device):
        curve = torch.zeros(self.total, device=device)
        index = 0
        while index < self.total:
            for host in self.source.epoch():
                self.method.batch.copy_(host, non_blocking=True)
                self.method.lr.fill_(self.peak * 0.5 * (1.0 + math.cos(math.pi * index / self.total)))
                self.graph.replay()
                curve[index].copy_(self.loss)
                index += 1
        return curve


def main():
    torch.manual_seed(13)
    device = torch.device("cuda")
    trainer = Pretrainer(MomentumContrast(16, 48, device), SpectraSource(16, 48), total=30)
    curve = trainer.run(device).tolist()
    print("first", round(curve[0], 4), "last", round(curve[-1], 4))


if __name__ == "__main__":
    main()
