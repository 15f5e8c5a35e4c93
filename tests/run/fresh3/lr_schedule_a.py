"""Logistic regression with a warm-up and cosine schedule and a captured update."""
import math

import torch
import torch.nn.functional as F


class MomentumSGD:
    def __init__(self, params, lr, momentum=0.9):
        self.params = list(params)
        self.buffers = [torch.zeros_like(p) for p in self.params]
        self.momentum = momentum
        self.lr = lr

    def set_lr(self, lr):
        self.lr = lr

    @torch.no_grad()
    def step(self, grads):
        for p, buf, grad in zip(self.params, self.buffers, grads):
            buf.mul_(self.momentum).add_(grad)
            p.sub_(buf * self.lr)


class Cosine:
    def __init__(self, optim, peak, warm, total):
        self.optim, self.peak, self.warm, self.total = optim, peak, warm, total
        self.count = 0

    def step(self):
        self.count += 1
        if self.count <= self.warm:
            lr = self.peak * self.count / self.warm
        else:
            done = (self.count - self.warm) / (self.total - self.warm)
            lr = self.peak * 0.5 * (1 + math.cos(math.pi * done))
        self.optim.set_lr(lr)


class Model:
    def __init__(self, device, features=24, classes=3, batch=32):
        self.w = torch.zeros(features, classes, device=device, requires_grad=True)
        self.b = torch.zeros(classes, device=device, requires_grad=True)
        self.x = torch.zeros(batch, features, device=device)
        self.y = torch.zeros(batch, dtype=torch.long, device=device)

    def update(self, optim):
        loss = F.cross_entropy(self.x @ self.w + self.b, self.y)
        optim.step(torch.autograd.grad(loss, [self.w, self.b]))
        return loss.detach()

    def load(self, x, y):
        self.x.copy_(x)
        self.y.copy_(y)


def stream(steps, seed=0):
    gen = torch.Generator().manual_seed(seed)
    truth = torch.randn(24, 3, generator=gen)
    for _ in range(steps):
        x = torch.randn(32, 24, generator=gen)
        yield x, (x @ truth).argmax(dim=-1)


def main():
    device = torch.device("cuda")
    model = Model(device)
    optim = MomentumSGD([model.w, model.b], lr=0.0)
    schedule = Cosine(optim, peak=0.2, warm=4, total=60)
    graph, loss = None, None
    side = torch.cuda.Stream()
    for step, (x, y) in enumerate(stream(60)):
        model.load(x, y)
        schedule.step()
        if step < 3:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                loss = model.update(optim)
            torch.cuda.current_stream().wait_stream(side)
            continue
        if graph is None:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side):
                loss = model.update(optim)
        graph.replay()
    print("last loss", round(loss.item(), 5))


if __name__ == "__main__":
    main()
