"""Training an embedding on a batch of some thousand tokens, whose backward pass sorts them on the device."""

import torch

import graphsafe


def build(device):
    embed = torch.nn.Embedding(50, 8, padding_idx=0).to(device)
    head = torch.nn.Linear(8, 2).to(device)
    params = [*embed.parameters(), *head.parameters()]

    def step(ids, y):
        loss = torch.nn.functional.cross_entropy(head(embed(ids).mean(1)), y)
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            torch._foreach_add_(params, grads, alpha=-0.5)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(50, (64, 64)))
        args[1].copy_((args[0][:, 0] > 20).long())

    args = (torch.randint(50, (64, 64), device=device), torch.zeros(64, dtype=torch.long, device=device))
    return graphsafe.Step(step, args, refresh=refresh)
