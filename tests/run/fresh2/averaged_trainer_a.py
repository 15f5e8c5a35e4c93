"""Whole-step training graph plus a second graph that keeps an averaged copy of the weights."""
import time

import torch
from torch import nn

DEV = torch.device("cuda")
FEATURES, BATCH, STEPS = 40, 64, 24


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, 1)).to(DEV)


class Trainer:
    def __init__(self):
        self.model, self.average = make_model(), make_model().requires_grad_(False)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9)
        self.x = torch.zeros(BATCH, FEATURES, device=DEV)
        self.y = torch.zeros(BATCH, 1, device=DEV)
        self.loss_sum = torch.zeros((), device=DEV)
        self.seconds = []
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.update()
                self.blend()
        torch.cuda.current_stream().wait_stream(self.stream)
        self.opt.zero_grad(set_to_none=True)
        self.train_graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.train_graph, stream=self.stream):
            self.update()
        self.blend_graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.blend_graph, stream=self.stream):
            self.blend()
        self.loss_sum.zero_()

    def update(self):
        self.opt.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(self.model(self.x), self.y)
        loss.backward()
        self.opt.step()
        self.loss_sum.add_(loss.detach())

    @torch.no_grad()
    def blend(self):
        for kept, now in zip(self.average.parameters(), self.model.parameters()):
            kept.lerp_(now, 0.05)

    def step(self, x, y):
        began = time.perf_counter()
        self.x.copy_(x)
        self.y.copy_(y)
        self.train_graph.replay()
        self.blend_graph.replay()
        self.seconds.append(time.perf_counter() - began)


def main():
    trainer = Trainer()
    gen = torch.Generator(device=DEV).manual_seed(1)
    target = torch.randn(FEATURES, 1, device=DEV, generator=gen)
    for _ in range(STEPS):
        x = torch.randn(BATCH, FEATURES, device=DEV, generator=gen)
        trainer.step(x, x @ target)
    print(round(float(trainer.loss_sum) / STEPS, 4))


main()
