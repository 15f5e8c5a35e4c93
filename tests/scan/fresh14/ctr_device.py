"""Trains a click model with the whole step in one graph; rates and rollbacks are written in place."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, FIELDS, BATCH, EPOCHS = 500, 6, 64, 8


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
        self.total = torch.zeros((), device="cuda")

    def body(self):
        self.optimizer.zero_grad(set_to_none=False)
        loss = F.binary_cross_entropy_with_logits(self.model(self.ids), self.clicks)
        loss.backward()
        self.optimizer.step()
        self.total.add_(loss.detach())

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.body()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.body()
        self.total.zero_()

    def __call__(self, ids, clicks):
        self.ids.copy_(ids)
        self.clicks.copy_(clicks)
        self.graph.replay()


class Rollback:
    """Keeps the best weights on the device and goes back to them where the loss has risen."""

    def __init__(self, model):
        self.live = [p.detach() for p in model.parameters()]
        self.best = [p.clone() for p in self.live]
        self.lowest = torch.full((), float("inf"), device="cuda")

    def after_epoch(self, total):
        better = total < self.lowest
        for live, best in zip(self.live, self.best, strict=True):
            best.copy_(torch.where(better, live, best))
            live.copy_(best)
        self.lowest.copy_(torch.minimum(total, self.lowest))
        total.zero_()


def batches(count):
    for _ in range(count):
        ids = torch.randint(0, ROWS, (BATCH, FIELDS), device="cuda")
        yield ids, (ids.sum(1) % 3 == 0).float()


def main():
    torch.manual_seed(8)
    model = ClickModel().cuda()
    rate = torch.tensor(1e-2, device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, capturable=True)
    step = StepGraph(model, optimizer)
    step.capture()
    rollback = Rollback(model)
    for _ in range(EPOCHS):
        for ids, clicks in batches(10):
            step(ids, clicks)
        rate.mul_(0.7)
        rollback.after_epoch(step.total)
    torch.save(model.state_dict(), "click.pt")


if __name__ == "__main__":
    main()
