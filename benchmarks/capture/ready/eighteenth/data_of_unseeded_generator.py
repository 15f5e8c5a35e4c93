"""Training on a data set that a generator without a seed has made: sound, each batch is copied into place."""
import numpy as np
import torch
from torch import nn

import graphsafe


def regression(rows=400, columns=6):
    rng = np.random.default_rng()
    x = rng.normal(size=(rows, columns)).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(np.sin(x).sum(1, keepdims=True))


def build(device):
    x, y = regression()
    net = nn.Linear(6, 1).to(device)
    params = list(net.parameters())

    def train(x, y):
        loss = (net(x) - y).square().mean()
        with torch.no_grad():
            for param, grad in zip(params, torch.autograd.grad(loss, params), strict=True):
                param.sub_(0.05 * grad)
        return loss.detach()

    def refresh(args, kwargs, k):
        rows = torch.randint(0, len(x), (16,))
        args[0].copy_(x[rows])
        args[1].copy_(y[rows])

    return graphsafe.Step(train, (x[:16].to(device), y[:16].to(device)), refresh=refresh)
