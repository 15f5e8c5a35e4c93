"""Momentum contrast: keys of a slowly moving encoder go into a queue at a device pointer; shuffled batch norm by a permutation."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe

QUEUE, BATCH, WIDTH = 256, 16, 24


class Contrast:
    def __init__(self, device):
        def encoder():
            return nn.Sequential(nn.Linear(32, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, WIDTH)).to(device)

        self.query, self.key = encoder(), encoder()
        self.key.load_state_dict(self.query.state_dict())
        self.key.requires_grad_(False)
        self.queue = F.normalize(torch.randn(QUEUE, WIDTH, device=device), dim=-1)
        self.pointer = torch.zeros(1, dtype=torch.long, device=device)
        self.ages = torch.zeros(QUEUE, dtype=torch.int32, device=device)
        self.images = torch.zeros(2, BATCH, 32, device=device)
        self.optimizer = torch.optim.SGD(self.query.parameters(), lr=0.02, momentum=0.9, foreach=True)

    def step(self):
        q = F.normalize(self.query(self.images[0]), dim=-1)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.key.parameters()), list(self.query.parameters()), 0.02)
            order = torch.randperm(BATCH, device=q.device)
            back = order.argsort()
            k = F.normalize(self.key(self.images[1][order])[back], dim=-1)
        logits = torch.cat([(q * k).sum(-1, keepdim=True), q @ self.queue.T], 1) / 0.2
        loss = F.cross_entropy(logits, torch.zeros(BATCH, dtype=torch.long, device=q.device))
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            rows = (self.pointer + torch.arange(BATCH, device=q.device)).remainder(QUEUE)
            self.queue.index_copy_(0, rows, k)
            self.ages.add_(1).index_fill_(0, rows, 0)
            self.pointer.add_(BATCH).remainder_(QUEUE)
        return loss.detach(), self.ages, self.pointer

    def load(self, args, kwargs, k):
        base = torch.randn(BATCH, 32)
        self.images.copy_(base + 0.3 * torch.randn(2, BATCH, 32))


def build(device):
    contrast = Contrast(device)
    return graphsafe.Step(contrast.step, (), {}, refresh=contrast.load)
