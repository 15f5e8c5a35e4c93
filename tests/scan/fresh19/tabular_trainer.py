import argparse
import math

import torch
from torch import nn


def make_data(n, features, gen):
    x = torch.randn(n, features, generator=gen)
    w = torch.randn(features, 1, generator=gen)
    y = (x @ w).tanh() + 0.05 * torch.randn(n, 1, generator=gen)
    return x, y


class Net(nn.Module):
    def __init__(self, features, hidden, p):
        super().__init__()
        self.a = nn.Linear(features, hidden)
        self.b = nn.Linear(hidden, 1)
        self.p = p

    def forward(self, x):
        h = torch.nn.functional.gelu(self.a(x))
        if self.training:
            h = h * (torch.rand_like(h) > self.p) / (1 - self.p)
        return self.b(h)


class Trainer:
    def __init__(self, net, batch, features, device, lr):
        self.net = net
        self.lr0 = lr
        self.opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
        self.bx = torch.zeros(batch, features, device=device)
        self.by = torch.zeros(batch, 1, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()

    def _objective(self):
        out = self.net(self.bx)
        return nn.functional.mse_loss(out, self.by)

    def capture(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.autocast("cuda", dtype=torch.bfloat16):
            with torch.cuda.stream(self.stream):
                for _ in range(3):
                    self.opt.zero_grad(set_to_none=True)
                    self._objective().backward()
            torch.cuda.current_stream().wait_stream(self.stream)
            self.opt.zero_grad(set_to_none=True)
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.loss = self._objective()
                self.loss.backward()

    def step(self, x, y):
        self.bx.copy_(x)
        self.by.copy_(y)
        self.opt.zero_grad()
        self.graph.replay()
        self.opt.step()
        return self.loss

    def schedule(self, epoch, epochs):
        for group in self.opt.param_groups:
            group["lr"] = self.lr0 * 0.5 * (1 + math.cos(math.pi * epoch / epochs))

    def evaluate(self, x, y):
        self.net.eval()
        self.bx.copy_(x)
        self.by.copy_(y)
        self.graph.replay()
        self.net.train()
        return self.loss.detach().clone()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    device = torch.device("cuda")
    torch.manual_seed(0)
    x, y = (t.to(device) for t in make_data(64, 6, torch.Generator().manual_seed(4)))
    trainer = Trainer(Net(6, 16, 0.2).to(device), 16, 6, device, lr=0.05)
    trainer.capture()
    losses, curve = [], []
    for epoch in range(args.epochs):
        trainer.schedule(epoch, args.epochs)
        for i in range(0, 48, 16):
            loss = trainer.step(x[i : i + 16], y[i : i + 16])
            losses.append(loss.item())
        curve.append(trainer.evaluate(x[48:], y[48:]))
    print(losses)
    print(torch.stack(curve).tolist())


if __name__ == "__main__":
    main()
