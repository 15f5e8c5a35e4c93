"""A trainer whose graph holds forward and backward; clipping and the optimizer's step stay outside."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, FEATURES, CLASSES = 32, 20, 5


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, CLASSES))

    def forward(self, x):
        return self.body(x)


class Callback:
    def after_step(self, trainer, number):
        pass


class BestKeeper(Callback):
    """Keeps the weights of the lowest loss and goes back to them when the loss has grown for too long."""

    def __init__(self, patience):
        self.patience = patience
        self.lowest, self.since, self.saved = float("inf"), 0, {}

    def after_step(self, trainer, number):
        now = trainer.loss.item()
        if now < self.lowest:
            self.lowest, self.since = now, 0
            self.saved = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
        else:
            self.since += 1
        if self.since >= self.patience and self.saved:
            for name, p in trainer.model.named_parameters():
                p.data = self.saved[name].clone()
            self.since = 0


class Trainer:
    def __init__(self, callbacks):
        self.model = Classifier().cuda()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.callbacks = callbacks
        self.x = torch.randn(BATCH, FEATURES, device="cuda")
        self.y = torch.zeros(BATCH, dtype=torch.long, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def gradients(self):
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        return loss

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model.zero_grad(set_to_none=True)
                self.gradients()
        torch.cuda.current_stream().wait_stream(side)
        self.model.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = self.gradients()

    def train(self, batches):
        for number, (x, y) in enumerate(batches):
            self.opt.zero_grad()
            self.x.copy_(x)
            self.y.copy_(y)
            self.graph.replay()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            for callback in self.callbacks:
                callback.after_step(self, number)


def batches(count):
    centers = torch.randn(CLASSES, FEATURES, device="cuda")
    for _ in range(count):
        y = torch.randint(0, CLASSES, (BATCH,), device="cuda")
        yield centers[y] + torch.randn(BATCH, FEATURES, device="cuda"), y


def main():
    torch.manual_seed(9)
    trainer = Trainer([BestKeeper(patience=4)])
    trainer.record()
    trainer.train(batches(50))
    torch.save(trainer.model.state_dict(), "classifier.pt")


if __name__ == "__main__":
    main()
