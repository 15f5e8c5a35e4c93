"""MoCo's momentum update with a device pointer, but the encoder's `.data` is replaced as in the official code."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class MoCo(nn.Module):
    def __init__(self, dim=8, K=32, n=8, m=0.9, T=0.07):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, dim))
        self.encoder_k = copy.deepcopy(self.encoder_q).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(K, dim), dim=1))
        self.register_buffer("slots", torch.arange(n))

    @torch.no_grad()
    def _momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.data = k.data * self.m + q.data * (1.0 - self.m)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        self.queue.index_copy_(0, self.slots, keys)
        self.slots.add_(keys.shape[0]).remainder_(self.K)

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self._momentum_update()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue.clone().t()
        logits = torch.cat([pos, neg], dim=1) / self.T
        labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self._dequeue_and_enqueue(k)
        return F.cross_entropy(logits, labels)


def build(device):
    torch.manual_seed(0)
    model = MoCo().to(device)
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=0.03, momentum=0.9)
    a, b = torch.randn(8, 16, device=device), torch.randn(8, 16, device=device)

    def step(a, b):
        loss = model(a, b)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        x = torch.randn(8, 16)
        args[0].copy_(x + 0.1 * torch.randn(8, 16))
        args[1].copy_(x + 0.1 * torch.randn(8, 16))

    return graphsafe.Step(step, (a, b), refresh=refresh)
