"""A trainer whose graph holds forward and backward; the optimizer's step reads the gradients that replays fill."""

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


class Average(Callback):
    """Keeps a slow average of the weights, and sets the weights to it at the end of each period."""

    def __init__(self, period):
        self.period = period
        self.slow = None

    @torch.no_grad()
    def after_step(self, trainer, number):
        params = list(trainer.model.parameters())
        if self.slow is None:
            self.slow = [p.detach().clone() for p in params]
        torch._foreach_lerp_(self.slow, params, 0.1)
        if number % self.period == self.period - 1:
            torch._foreach_copy_(params, self.slow)


class LossLog(Callback):
    def __init__(self, steps):
        self.losses = torch.zeros(steps, device="cuda")

    def after_step(self, trainer, number):
        self.losses[number].copy_(trainer.loss.detach())


class Trainer:
    def __init__(self, callbacks):
        self.model = Classifier().cuda()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=1e-2, momentum=0.9)
        self.callbacks = callbacks
        self.x = torch.randn(BATCH, FEATURES, device="cuda")
        self.y = torch.zeros(BATCH, dtype=torch.long, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def gradients(self):
        self.model.zero_grad(set_to_none=False)
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        return loss

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.gradients()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.loss = self.gradients()

    def train(self, batches):
        for number, (x, y) in enumerate(batches):
            self.x.copy_(x)
            self.y.copy_(y)
            self.graph.replay()
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
    log = LossLog(50)
    trainer = Trainer([Average(period=10), log])
    trainer.record()
    trainer.train(batches(50))
    torch.save((trainer.model.state_dict(), log.losses.cpu()), "classifier.pt")


if __name__ == "__main__":
    main()
