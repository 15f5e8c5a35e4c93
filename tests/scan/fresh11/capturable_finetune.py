"""Fine-tuning with the whole optimisation step in one graph and a learning rate that lives on the device."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CosineRate:
    def __init__(self, rate: torch.Tensor, peak: float, total: int):
        self.rate, self.peak, self.total = rate, peak, total
        self.done = 0

    def advance(self):
        self.done += 1
        self.rate.fill_(self.peak * 0.5 * (1 + math.cos(math.pi * self.done / self.total)))


class Meter:
    def __init__(self, size: int, device: torch.device):
        self.losses = torch.zeros(size, device=device)
        self.cursor = torch.zeros(1, dtype=torch.long, device=device)

    def update(self, loss: torch.Tensor):
        self.losses.index_copy_(0, self.cursor, loss.reshape(1))
        self.cursor.add_(1)

    def reset(self):
        self.losses.zero_()
        self.cursor.zero_()


class Finetuner:
    def __init__(self, device: torch.device, steps: int):
        self.device = device
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4)).to(device)
        rate = torch.tensor(1e-3, device=device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=rate, capturable=True)
        self.rate = CosineRate(rate, 5e-3, steps)
        self.meter = Meter(steps + 4, device)
        self.x = torch.randn(16, 8, device=device)
        self.y = torch.randint(0, 4, (16,), device=device)
        self.graph = torch.cuda.CUDAGraph()

    def _step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.net(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        self.meter.update(loss.detach())

    def record(self):
        stream = torch.cuda.Stream(self.device)
        here = torch.cuda.current_stream(self.device)
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._step()
            self.optimizer.zero_grad(set_to_none=True)
        here.wait_stream(stream)
        self.meter.reset()
        with torch.cuda.graph(self.graph, stream=stream):
            self._step()

    def run(self, xs, ys):
        for x, y in zip(xs, ys):
            self.rate.advance()
            self.x.copy_(x)
            self.y.copy_(y)
            self.graph.replay()
        return self.meter.losses[: len(xs)].cpu()


def main(device="cuda", steps=10):
    torch.manual_seed(43)
    device = torch.device(device)
    tuner = Finetuner(device, steps)
    tuner.record()
    xs = torch.randn(steps, 16, 8, device=device)
    return tuner.run(xs, xs[..., :4].argmax(-1))


if __name__ == "__main__":
    print(main())
