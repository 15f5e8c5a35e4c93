import math
import torch
from torch import nn


def record(fn, warm=3):
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(warm):
            fn()
    torch.cuda.current_stream().wait_stream(s)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = fn()
    return g, out


class Loop:
    def __init__(self, net, device):
        self.net = net
        self.lr = torch.full((), 0.05, device=device)
        self.x = torch.randn(16, 10, device=device)
        self.y = torch.randn(16, 1, device=device)
        self.log = torch.zeros(64, device=device)
        self.graph, self.loss = record(self._step)

    def _step(self):
        loss = (self.net(self.x) - self.y).square().mean()
        params = list(self.net.parameters())
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            for p, g in zip(params, grads):
                p.sub_(g * self.lr)
        return loss.detach()

    def fit(self, batches):
        n = 0
        for x, y in batches:
            self.lr.fill_(0.025 * (1 + math.cos(n / 4)))
            self.x.copy_(x)
            self.y.copy_(y)
            self.graph.replay()
            self.log[n].copy_(self.loss)
            n += 1
        return self.log[:n].mean().item()


def main(device="cuda"):
    torch.manual_seed(0)
    loop = Loop(nn.Linear(10, 1).to(device), device)
    data = []
    for _ in range(10):
        x = torch.randn(16, 10, device=device)
        data.append((x, x.sum(1, keepdim=True)))
    for epoch in range(2):
        print(epoch, loop.fit(data))


if __name__ == "__main__":
    main()
