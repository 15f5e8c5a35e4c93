"""Capture a whole optimisation step; the rate and the moving average stay on the device."""
import math

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, features=8, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.head = nn.Linear(24, classes)

    def forward(self, x):
        return self.head(self.body(x))


class CapturedTrainer:
    def __init__(self, model, device, steps, batch=16, lr=0.01):
        self.model = model
        self.device = device
        self.lr = torch.tensor(lr, device=device)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=self.lr, capturable=True)
        self.x = torch.zeros(batch, 8, device=device)
        self.y = torch.zeros(batch, dtype=torch.long, device=device)
        self.losses = torch.zeros(steps, device=device)
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    def _step(self):
        self.optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _capture(self):
        stream = torch.cuda.Stream(self.device)
        saved = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        with torch.cuda.graph(self.graph, stream=stream):
            self.loss = self._step()
        self.model.load_state_dict(saved)
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()

    @torch.no_grad()
    def blend(self, decay):
        for name, p in self.model.named_parameters():
            self.shadow[name].lerp_(p, 1 - decay)

    @torch.no_grad()
    def load_shadow(self):
        for name, p in self.model.named_parameters():
            p.copy_(self.shadow[name])

    def advance(self, number, x, y, rate):
        self.lr.fill_(rate)
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        self.losses[number].copy_(self.loss)


def train(trainer, data, labels, epochs):
    steps = epochs * len(data)
    done = 0
    for epoch in range(epochs):
        for x, y in zip(data, labels):
            trainer.advance(done, x, y, 0.005 * (1 + math.cos(math.pi * done / steps)))
            trainer.blend(0.99)
            done += 1
        if epoch + 1 < epochs:
            trainer.load_shadow()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    data = torch.randn(4, 16, 8, device=device)
    labels = torch.randint(0, 4, (4, 16), device=device)
    trainer = CapturedTrainer(Net().to(device), device, steps=8)
    train(trainer, data, labels, epochs=2)
    losses = trainer.losses.tolist()
    print("first", losses[0], "last", losses[-1])


if __name__ == "__main__":
    main()
