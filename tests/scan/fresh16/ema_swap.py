"""Trains a small net and checks it with averaged weights now and then, each by a graph of its own."""

from contextlib import contextmanager

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, INPUTS, CLASSES = 32, 12, 3


class Averages:
    def __init__(self, model, decay):
        self.model, self.decay = model, decay
        self.shadow = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self):
        torch._foreach_lerp_(self.shadow, [p.detach() for p in self.model.parameters()], 1 - self.decay)

    @contextmanager
    def applied(self):
        """Puts the averages in place of the weights for a while."""
        self.swap()
        yield
        self.swap()

    def swap(self):
        for number, p in enumerate(self.model.parameters()):
            p.data, self.shadow[number] = self.shadow[number], p.data


class Session:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(INPUTS, 40), nn.SiLU(), nn.Linear(40, CLASSES)).cuda()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.averages = Averages(self.model, 0.9)
        self.x = torch.randn(BATCH, INPUTS, device="cuda")
        self.y = torch.zeros(BATCH, dtype=torch.long, device="cuda")
        self.trainer, self.checker = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        self.best = 0.0

    def train_step(self):
        self.opt.zero_grad(set_to_none=True)
        F.cross_entropy(self.model(self.x), self.y).backward()
        self.opt.step()

    @torch.no_grad()
    def check_step(self):
        return (self.model(self.x).argmax(-1) == self.y).float().mean()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.train_step()
                self.check_step()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.trainer):
            self.train_step()
        with torch.cuda.graph(self.checker):
            self.share = self.check_step()

    def load(self, batch):
        self.x.copy_(batch[0])
        self.y.copy_(batch[1])

    def run(self, batches, held):
        for number, batch in enumerate(batches):
            self.load(batch)
            self.trainer.replay()
            self.averages.update()
            if number % 10 == 9:
                with self.averages.applied():
                    self.load(held)
                    self.checker.replay()
                    self.best = max(self.best, self.share.clone())


def batches(count, centers):
    for _ in range(count):
        y = torch.randint(0, CLASSES, (BATCH,))
        yield centers[y] + torch.randn(BATCH, INPUTS), y


def main():
    torch.manual_seed(1)
    centers = torch.randn(CLASSES, INPUTS)
    held = next(batches(1, centers))
    session = Session()
    session.capture()
    session.run(batches(60, centers), held)
    torch.save({"best": session.best.cpu(), "averages": session.averages.shadow}, "averages.pt")


if __name__ == "__main__":
    main()
