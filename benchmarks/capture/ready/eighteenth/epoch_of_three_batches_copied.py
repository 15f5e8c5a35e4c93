"""Training on a list of three batches, begun again at its end: sound, each batch is copied into place."""
import torch
from torch import nn

import graphsafe


class Epochs:
    def __init__(self, batches):
        self.batches, self.rest = batches, iter(batches)

    def take(self):
        batch = next(self.rest, None)
        if batch is None:
            self.rest = iter(self.batches)
            batch = next(self.rest)
        return batch


def build(device):
    net = nn.Linear(6, 1).to(device)
    params = list(net.parameters())
    epochs = Epochs([(x, x.sin().sum(1, keepdim=True)) for x in torch.randn(3, 16, 6)])

    def train(x, y):
        loss = (net(x) - y).square().mean()
        with torch.no_grad():
            for param, grad in zip(params, torch.autograd.grad(loss, params), strict=True):
                param.sub_(0.05 * grad)
        return loss.detach()

    def refresh(args, kwargs, k):
        for place, new in zip(args, epochs.take(), strict=True):
            place.copy_(new)

    args = (torch.randn(16, 6, device=device), torch.randn(16, 1, device=device))
    return graphsafe.Step(train, args, refresh=refresh)
