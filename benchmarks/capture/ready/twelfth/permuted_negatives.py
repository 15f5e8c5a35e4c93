"""Contrastive training pairs each row with one that randperm chooses on the device."""

import torch

import graphsafe


def build(device):
    encode = torch.nn.Linear(10, 6).to(device)
    params = list(encode.parameters())

    def step(a, b):
        order = torch.randperm(len(a), device=a.device)
        za, zb = torch.nn.functional.normalize(encode(a), dim=-1), torch.nn.functional.normalize(encode(b), dim=-1)
        loss = torch.relu(0.5 - (za * zb).sum(-1) + (za * zb[order]).sum(-1)).mean()
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            torch._foreach_add_(params, grads, alpha=-0.05)
        return loss.detach(), order

    def refresh(args, kwargs, k):
        x = torch.randn(16, 10)
        args[0].copy_(x)
        args[1].copy_(x + 0.2 * torch.randn(16, 10))

    return graphsafe.Step(
        step, (torch.randn(16, 10, device=device), torch.randn(16, 10, device=device)), refresh=refresh
    )
