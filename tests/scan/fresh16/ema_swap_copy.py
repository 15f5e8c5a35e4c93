"""Trains a small net and checks a second one that holds averaged weights, each by a graph of its own."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, INPUTS, CLASSES = 32, 12, 3


class Averages:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.weights = [p.detach() for p in model.parameters()]
        self.kept = list(self.shadow.parameters())

    @torch.no_grad()
    def update(self):
        torch._foreach_lerp_(self.kept, self.weights, 1 - self.decay)


class Session:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(INPUTS, 40), nn.SiLU(), nn.Linear(40, CLASSES)).cuda()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.averages = Averages(self.model, 0.9)
        self.x = torch.randn(BATCH, INPUTS, device="cuda")
        self.y = torch.zeros(BATCH, dtype=torch.long, device="cuda")
        self.best = torch.zeros((), device="cuda")
        self.trainer, self.checker = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()

    def train_step(self):
        self.opt.zero_grad(set_to_none=True)
        F.cross_entropy(self.model(self.x), self.y).backward()
        self.opt.step()

    @torch.no_grad()
    def check_step(self):
        share = (self.averages.shadow(self.x).argmax(-1) == self.y).float().mean()
        self.best.copy_(torch.maximum(self.best, share))

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.train_step()
                self.check_step()
        torch.cuda.current_stream().wait_stream(side)
        self.best.zero_()
        with torch.cuda.graph(self.trainer):
            self.train_step()
        with torch.cuda.graph(self.checker):
            self.check_step()

    def load(self, batch):
        self.x.copy_(batch[0], non_blocking=True)
        self.y.copy_(batch[1], non_blocking=True)

    def run(self, batches, held):
        for number, batch in enumerate(batches):
            self.load(batch)
            self.trainer.replay()
            self.averages.update()
            if number % 10 == 9:
                self.load(held)
                self.checker.replay()


def batches(count, centers):
    for _ in range(count):
        y = torch.randint(0, CLASSES, (BATCH,))
        x = centers[y] + torch.randn(BATCH, INPUTS)
        yield x.pin_memory(), y.pin_memory()


def main():
    torch.manual_seed(1)
    centers = torch.randn(CLASSES, INPUTS)
    held = next(batches(1, centers))
    session = Session()
    session.capture()
    session.run(batches(60, centers), held)
    torch.save({"best": session.best.cpu(), "averages": session.averages.shadow.state_dict()}, "averages.pt")


if __name__ == "__main__":
    main()
