"""MoCo: momentum encoder, InfoNCE, a negative queue with the pointer in a device buffer."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class MoCo(nn.Module):
    def __init__(self, dim=8, K=32, m=0.99, T=0.07):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = nn.Sequential(nn.Linear(20, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, dim))
        self.encoder_k = copy.deepcopy(self.encoder_q).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.mul_(self.m).add_(q, alpha=1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        slots = (self.queue_ptr + torch.arange(keys.shape[0], device=keys.device)) % self.K
        self.queue.index_copy_(1, slots, keys.T)
        self.queue_ptr.add_(keys.shape[0]).remainder_(self.K)

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self.momentum_update()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        l_pos = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", q, self.queue.clone().detach())
        logits = torch.cat([l_pos, l_neg], 1) / self.T
        labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self.enqueue(k)
        return logits, labels


def build(device, batch=8):
    model = MoCo().to(device).train()
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    q, k = torch.randn(batch, 20, device=device), torch.randn(batch, 20, device=device)

    def step(im_q, im_k):
        logits, labels = model(im_q, im_k)
        loss = F.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        acc = (logits.argmax(1) == labels).float().mean()
        return loss.detach(), acc

    def refresh(args, kwargs, i):
        x = torch.randn(batch, 20)
        args[0].copy_(x + 0.1 * torch.randn(batch, 20))
        args[1].copy_(x + 0.1 * torch.randn(batch, 20))

    return graphsafe.Step(step, (q, k), refresh=refresh)
