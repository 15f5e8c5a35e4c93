"""Adagrad with lr_decay on a small recommendation model, as in the DLRM and word-embedding recipes."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class TwoTower(nn.Module):
    def __init__(self, users=40, items=60, d=8):
        super().__init__()
        self.user = nn.Embedding(users, d)
        self.item = nn.Embedding(items, d)
        self.ubias, self.ibias = nn.Embedding(users, 1), nn.Embedding(items, 1)
        self.mlp = nn.Sequential(nn.Linear(2 * d, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, u, i):
        eu, ei = self.user(u), self.item(i)
        dot = (eu * ei).sum(-1, keepdim=True)
        return (dot + self.ubias(u) + self.ibias(i) + self.mlp(torch.cat([eu, ei], -1))).squeeze(-1)


def build(device, batch=16):
    model = TwoTower().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.1, lr_decay=1e-2)
    users = torch.randint(0, 40, (batch,), device=device)
    items = torch.randint(0, 60, (batch,), device=device)
    clicks = torch.randint(0, 2, (batch,), device=device).float()

    def step(users, items, clicks):
        opt.zero_grad(set_to_none=True)
        logits = model(users, items)
        loss = F.binary_cross_entropy_with_logits(logits, clicks)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 40, (batch,)))
        args[1].copy_(torch.randint(0, 60, (batch,)))
        args[2].copy_(torch.randint(0, 2, (batch,)).float())

    return graphsafe.Step(step, (users, items, clicks), refresh=refresh)
