"""A whole training step in one graph: loss, backward, clipping, AdamW with a scheduled rate."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def cosine(peak: float, warmup: int, total: int):
    def at(step: int) -> float:
        if step < warmup:
            return peak * (step + 1) / warmup
        return 0.5 * peak * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))

    return at


class Classifier(nn.Module):
    def __init__(self, inputs: int, classes: int):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class GraphTrainer:
    def __init__(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor, rate, clip: float = 1.0):
        self.model, self.rate, self.clip = model, rate, clip
        device = x.device
        self.x, self.y = torch.zeros_like(x), torch.zeros_like(y)
        self.lr = torch.zeros((), device=device)
        self.params = list(model.parameters())
        self.optimizer = torch.optim.AdamW(self.params, lr=self.lr, capturable=True, weight_decay=0.0)
        self.average = torch.zeros((), device=device)
        self.steps = 0
        self._capture(device)

    def _update(self) -> None:
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        total = torch.stack([p.grad.square().sum() for p in self.params]).sum().sqrt()
        scale = (self.clip / (total + 1e-6)).clamp(max=1.0)
        for p in self.params:
            p.grad.mul_(scale)
        self.optimizer.step()
        self.average.lerp_(loss.detach(), 0.1)

    def _capture(self, device) -> None:
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.optimizer.zero_grad(set_to_none=True)
                self._update()
        torch.cuda.current_stream(device).wait_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self._update()
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()
        self.average.zero_()

    def train(self, batches) -> None:
        for x, y in batches:
            self.lr.fill_(self.rate(self.steps))
            self.x.copy_(x)
            self.y.copy_(y)
            self.optimizer.zero_grad(set_to_none=False)
            self.graph.replay()
            self.steps += 1


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    model = Classifier(10, 4).to(device)
    x = torch.randn(60, 16, 10, device=device)
    y = (x[..., :4] * 2).argmax(-1)
    trainer = GraphTrainer(model, x[0], y[0], cosine(5e-3, warmup=5, total=60))
    trainer.train(zip(x, y))
    print("steps", trainer.steps, "loss", float(trainer.average))


if __name__ == "__main__":
    main()
