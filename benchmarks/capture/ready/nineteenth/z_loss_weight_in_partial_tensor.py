"""Router z-loss of a mixture of experts: sound, the training loop fills a tensor in the keywords of a partial."""
from functools import partial

import torch

import graphsafe


def router_loss(logits, target, weight):
    z = torch.logsumexp(logits, -1)
    balance = (torch.softmax(logits, -1).mean(0) - target).square().sum()
    return balance + weight * z.square().mean()


def build(device, dim=8, experts=6):
    router = torch.randn(dim, experts, device=device, requires_grad=True)
    target = torch.full((experts,), 1 / experts, device=device)
    criterion = partial(router_loss, target=target, weight=torch.full((), 0.01, device=device))

    def step(x):
        loss = criterion(x @ router)
        (gradient,) = torch.autograd.grad(loss, router)
        with torch.no_grad():
            router.sub_(gradient, alpha=0.2)
        return loss.detach(), router.detach().norm()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, dim))
        if k % 15 == 14 and k < 60:
            criterion.keywords["weight"].mul_(2)

    return graphsafe.Step(step, (torch.randn(16, dim, device=device),), refresh=refresh)
