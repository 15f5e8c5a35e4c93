"""Trains a small classifier; forward and backward are one graph."""
import argparse

import torch
from torch import nn


def batches(count, size, seed=0):
    gen = torch.Generator().manual_seed(seed)
    w = torch.randn(20, 4, generator=gen)
    for _ in range(count):
        x = torch.randn(size, 20, generator=gen)
        yield x, (x @ w).argmax(-1)


class GraphedTrainer:
    def __init__(self, model, device, size):
        self.model, self.device = model, device
        self.opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        self.x = torch.zeros(size, 20, device=device)
        self.y = torch.zeros(size, dtype=torch.long, device=device)
        self.graph = torch.cuda.CUDAGraph()

    def compute(self):
        loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        return loss

    def capture(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.opt.zero_grad(set_to_none=True)
                self.compute()
        torch.cuda.current_stream().wait_stream(side)
        self.opt.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph, stream=side):
            self.loss = self.compute()

    def fit(self, stream_of_batches):
        history = []
        for x, y in stream_of_batches:
            self.opt.zero_grad()
            self.x = x.pin_memory().to(self.device, non_blocking=True)
            self.y.copy_(y.pin_memory(), non_blocking=True)
            self.graph.replay()
            self.opt.step()
            history.append(self.loss.item())
        return history


def main(device="cuda"):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    args, _ = parser.parse_known_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4)).to(device)
    trainer = GraphedTrainer(model, torch.device(device), 32)
    trainer.capture()
    history = trainer.fit(batches(args.steps, 32))
    print(f"first {history[0]:.3f} last {history[-1]:.3f}")


if __name__ == "__main__":
    main()
