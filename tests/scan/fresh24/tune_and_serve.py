"""A click model that is fine-tuned on feedback while it serves; both sides run from captured graphs."""
import copy
from collections import deque

import torch
from torch import nn
import torch.nn.functional as F


class ClickNet(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU())
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(-1)


class Server:
    """Scores batches with a frozen copy of the model."""

    def __init__(self, net, batch, features, device, stream):
        self.net = copy.deepcopy(net).requires_grad_(False)
        self.x = torch.zeros(batch, features, device=device)
        self.graph = torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.net(self.x).sigmoid()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph, stream=stream):
            self.scores = self.net(self.x).sigmoid()

    def score(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.scores.clone()

    def publish(self, state):
        for name, p in self.net.named_parameters():
            p.data = state[name].clone()


class Warmdown:
    def __init__(self, base, floor, half_life):
        self.base, self.floor, self.half_life = base, floor, half_life

    def at(self, step):
        return max(self.floor, self.base * 0.5 ** (step / self.half_life))


class Trainer:
    def __init__(self, net, batch, features, device, stream):
        self.net = net
        self.schedule = Warmdown(0.05, 1e-3, 10)
        self.opt = torch.optim.SGD(net.parameters(), lr=self.schedule.at(0), momentum=0.9)
        self.x = torch.zeros(batch, features, device=device)
        self.y = torch.zeros(batch, device=device)
        self.steps = 0
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        self.opt.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph, stream=stream):
            self.loss = self._step()

    def _step(self):
        self.opt.zero_grad(set_to_none=False)
        loss = F.binary_cross_entropy_with_logits(self.net(self.x), self.y)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def update(self, x, y):
        self.steps += 1
        for group in self.opt.param_groups:
            group["lr"] = self.schedule.at(self.steps)
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss


class LossWatch:
    """Stops publication while the recent losses are worse than the older ones."""

    def __init__(self, size=6):
        self.recent = deque(maxlen=size)

    def add(self, loss):
        self.recent.append(loss)

    def healthy(self):
        if len(self.recent) < self.recent.maxlen:
            return True
        losses = torch.stack(list(self.recent))
        half = len(losses) // 2
        return bool(losses[half:].mean() <= losses[:half].mean() * 1.5)


class Loop:
    def __init__(self, device, batch=16, features=8, publish_every=4):
        torch.manual_seed(0)
        stream = torch.cuda.Stream(device)
        net = ClickNet(features, 16).to(device)
        self.server = Server(net, batch, features, device, stream)
        self.trainer = Trainer(net, batch, features, device, stream)
        self.watch = LossWatch()
        self.publish_every = publish_every
        self.truth = torch.randn(features, device=device)

    def traffic(self):
        x = torch.randn(self.server.x.shape, device=self.truth.device)
        return x, (x @ self.truth > 0).float()

    def run(self, rounds):
        served = []
        for i in range(rounds):
            x, clicks = self.traffic()
            served.append(self.server.score(x))
            self.watch.add(self.trainer.update(x, clicks))
            if self.watch.healthy() and i % self.publish_every == 0:
                self.server.publish(self.trainer.net.state_dict())
        return torch.stack(served)


def main():
    loop = Loop(torch.device("cuda"))
    scores = loop.run(12)
    print("mean score", scores.mean().item(), "last", scores[-1, :4].tolist())


if __name__ == "__main__":
    main()
