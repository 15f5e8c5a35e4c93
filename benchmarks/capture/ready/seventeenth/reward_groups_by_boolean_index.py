"""A policy step on groups of rollouts, groups of equal rewards filtered: faulty, by a boolean index."""
import torch

import graphsafe


def build(device, groups=4, size=5, dim=6):
    policy = torch.nn.Linear(dim, 1).to(device)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.05)

    def step(features, rewards):
        centred = rewards - rewards.mean(1, keepdim=True)
        advantages = centred / (rewards.std(1, keepdim=True) + 1e-4)
        varied = rewards.amax(1) > rewards.amin(1)
        terms = -(advantages * torch.nn.functional.logsigmoid(policy(features).squeeze(-1))).mean(1)
        kept = terms[varied]
        loss = kept.sum() / max(kept.numel(), 1)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(groups, size, dim))
        args[1].copy_((torch.rand(groups, size) < torch.tensor([[0.1], [0.5], [0.7], [0.95]])).float())

    args = (torch.randn(groups, size, dim, device=device), torch.ones(groups, size, device=device).tril())
    return graphsafe.Step(step, args, refresh=refresh)
