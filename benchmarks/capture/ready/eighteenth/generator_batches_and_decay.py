"""Training on batches of a generator function, with a reset of the rate in between: faulty, it is a float."""
import torch
from torch import nn

import graphsafe


def minibatches(x, y, size):
    while True:
        for at in range(0, len(x), size):
            yield x[at : at + size], y[at : at + size]


def build(device):
    net = nn.Linear(6, 1).to(device)
    params = list(net.parameters())
    x = torch.randn(320, 6)
    rate = [0.05]
    feed = minibatches(x, x.sin().sum(1, keepdim=True), 16)

    def train(x, y):
        loss = (net(x) - y).square().mean()
        with torch.no_grad():
            for param, grad in zip(params, torch.autograd.grad(loss, params), strict=True):
                param.sub_(rate[0] * grad)
        return loss.detach()

    def refresh(args, kwargs, k):
        for place, new in zip(args, next(feed), strict=True):
            place.copy_(new)

    def decay():
        rate[0] *= 0.1

    args = (torch.randn(16, 6, device=device), torch.randn(16, 1, device=device))
    return graphsafe.Step(train, args, refresh=refresh, events={"decay": decay})
