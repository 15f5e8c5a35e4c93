"""A trainer that replays one graph of the whole step, the optimizer's part too."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, INPUTS, CLASSES = 24, 16, 4


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(INPUTS, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.head = nn.Linear(48, CLASSES)

    def forward(self, x):
        return self.head(self.body(x))


class GraphTrainer:
    def __init__(self, callbacks: list):
        self.model = Tagger().cuda()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=4e-3, capturable=True)
        self.callbacks = callbacks
        self.x = torch.randn(BATCH, INPUTS, device="cuda")
        self.y = torch.zeros(BATCH, dtype=torch.long, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self.loss = None

    def whole_step(self) -> torch.Tensor:
        self.opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.whole_step()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.loss = self.whole_step()

    def fit(self, batches) -> None:
        self.capture()
        for number, (x, y) in enumerate(batches):
            self.x.copy_(x)
            self.y.copy_(y)
            self.graph.replay()
            for callback in self.callbacks:
                callback(self, number)
