"""Training on batches that a thread prepares ahead: sound, each finished batch is copied into place."""
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

import graphsafe


class Prefetcher:
    def __init__(self):
        self.pool = ThreadPoolExecutor(1)
        self.next = self.pool.submit(self.prepare)

    def prepare(self):
        x = torch.randn(32, 6)
        return x, x.sin().sum(1, keepdim=True)

    def take(self):
        batch = self.next.result()
        self.next = self.pool.submit(self.prepare)
        return batch


def build(device):
    net = nn.Linear(6, 1).to(device)
    params = list(net.parameters())
    loader = Prefetcher()

    def train(x, y):
        loss = (net(x) - y).square().mean()
        with torch.no_grad():
            for param, grad in zip(params, torch.autograd.grad(loss, params), strict=True):
                param.sub_(0.05 * grad)
        return loss.detach()

    def refresh(args, kwargs, k):
        for place, new in zip(args, loader.take(), strict=True):
            place.copy_(new)

    args = (torch.randn(32, 6, device=device), torch.randn(32, 1, device=device))
    return graphsafe.Step(train, args, refresh=refresh)
