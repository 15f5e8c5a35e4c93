"""Trains a click model with the whole step in one graph: forward, backward and Adam."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, FIELDS, BATCH = 500, 6, 64


class ClickModel(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.table = nn.Embedding(ROWS, width)
        self.wide = nn.Embedding(ROWS, 1)
        self.deep = nn.Sequential(nn.Linear(FIELDS * width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, ids):
        fields = self.table(ids)
        cross = (fields.sum(1) ** 2 - (fields**2).sum(1)).sum(-1) / 2
        return cross + self.wide(ids).sum((1, 2)) + self.deep(fields.flatten(1)).squeeze(-1)


class StepGraph:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.ids = torch.zeros(BATCH, FIELDS, dtype=torch.long, device="cuda")
        self.clicks = torch.zeros(BATCH, device="cuda")

    def body(self):
        self.optimizer.zero_grad(set_to_none=False)
        loss = F.binary_cross_entropy_with_logits(self.model(self.ids), self.clicks)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.body()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.body()

    def __call__(self, ids, clicks):
        self.ids.copy_(ids)
        self.clicks.copy_(clicks)
        self.graph.replay()
        return self.loss


class Rollback:
    """Keeps the best state and goes back to it when the loss has risen twice in a row."""

    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.best = float("inf")
        self.risen = 0

    def keep(self, loss):
        self.best = loss
        self.risen = 0
        self.saved = copy.deepcopy((self.model.state_dict(), self.optimizer.state_dict()))

    def after_epoch(self, loss):
        if loss < self.best:
            self.keep(loss)
            return
        self.risen += 1
        if self.risen == 2:
            weights, moments = self.saved
            self.model.load_state_dict(weights)
            self.optimizer.load_state_dict(moments)
            self.risen = 0


def batches(count):
    for _ in range(count):
        ids = torch.randint(0, ROWS, (BATCH, FIELDS))
        yield ids, (ids.sum(1) % 3 == 0).float()


def main():
    torch.manual_seed(8)
    model = ClickModel().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, capturable=True)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.7)
    step = StepGraph(model, optimizer)
    step.capture()
    rollback = Rollback(model, optimizer)
    for _ in range(8):
        total = torch.zeros((), device="cuda")
        for ids, clicks in batches(10):
            total += step(ids, clicks)
        schedule.step()
        rollback.after_epoch(total.item() / 10)
    torch.save(model.state_dict(), "click.pt")


if __name__ == "__main__":
    main()
