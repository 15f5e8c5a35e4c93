"""Whole-step training graph with Adam and a rollback to the last good point.

`fit` runs the same schedule with or without the graph: a good point is kept at
step 10, the run goes on to step 20, is rolled back and continues from there.
"""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda")
BATCH, DIN, DOUT = 32, 16, 4
KEEP_AT, ROLLBACK_AT, LAST = 10, 20, 36


def build(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(DIN, 48), nn.GELU(), nn.Linear(48, DOUT)).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=0.01, capturable=True)
    return net, opt


def batches(n, seed):
    gen = torch.Generator().manual_seed(seed)
    truth = torch.randn(DIN, DOUT, generator=gen)
    for i in range(n):
        x = torch.randn(BATCH, DIN, generator=gen) * (1.0 + 0.2 * (i % 5))
        yield x.to(device), (x @ truth).to(device)


class EagerStep:
    def __init__(self, net, opt, warm):
        self.net, self.opt = net, opt
        for x, y in warm:
            self(x, y)

    def __call__(self, x, y):
        self.opt.zero_grad()
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.opt.step()
        return loss.detach()


class GraphStep:
    def __init__(self, net, opt, warm):
        self.net, self.opt = net, opt
        self.x = torch.zeros(BATCH, DIN, device=device)
        self.y = torch.zeros(BATCH, DOUT, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for x, y in warm:
                self.x.copy_(x)
                self.y.copy_(y)
                self._body()
        torch.cuda.current_stream().wait_stream(side)
        self.opt.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._body()

    def _body(self):
        self.opt.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.net(self.x), self.y)
        loss.backward()
        self.opt.step()
        return loss

    def __call__(self, x, y):
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss.detach().clone()


def keep(net, opt):
    return copy.deepcopy({"net": net.state_dict(), "opt": opt.state_dict()})


def rollback(net, opt, point):
    net.load_state_dict(point["net"])
    opt.load_state_dict(point["opt"])


def fit(step_type):
    net, opt = build(seed=5)
    data = list(batches(3 + LAST, seed=6))
    step = step_type(net, opt, data[:3])
    losses, point = [], None
    for i, (x, y) in enumerate(data[3:]):
        if i == KEEP_AT:
            point = keep(net, opt)
        if i == ROLLBACK_AT:
            rollback(net, opt, point)
        losses.append(step(x, y))
    weights = torch.cat([p.detach().flatten() for p in net.parameters()])
    return torch.stack(losses).cpu(), weights.cpu()


def main():
    want_losses, want = fit(EagerStep)
    got_losses, got = fit(GraphStep)
    gap = float((got - want).abs().nan_to_num(1e9).max())
    print("RESULT", [round(float(v), 4) for v in got_losses[-4:]])
    if gap < 2e-3:
        print("CHECK ok")
    else:
        print(f"CHECK wrong: weights differ by {gap:.4g}, last loss {float(want_losses[-1]):.4f} in eager")


if __name__ == "__main__":
    main()
