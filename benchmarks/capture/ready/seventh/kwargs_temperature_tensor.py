"""Annealed sampling: the temperature is a device tensor that the loop fills; actions by Gumbel noise on the device."""
import torch
from torch import nn

import graphsafe


class Policy(nn.Module):
    def __init__(self, dim=16, actions=9):
        super().__init__()
        self.body = nn.Linear(dim, actions)

    def forward(self, obs, *, temperature, mask=None):
        logits = self.body(obs) / temperature
        probs = logits.masked_fill(mask, -1e9).softmax(-1)
        noise = torch.empty_like(probs).exponential_()
        return probs, (probs / noise).argmax(-1)


def build(device):
    torch.manual_seed(10)
    policy = Policy().to(device).eval().requires_grad_(False)
    obs = torch.randn(4, 16, device=device)
    mask = torch.zeros(4, 9, dtype=torch.bool, device=device)
    temperature = torch.ones((), device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        kwargs["mask"].copy_(torch.rand(4, 9) < 0.2)
        kwargs["temperature"].fill_(max(0.2, 0.9 ** max(0, k - 13)))

    return graphsafe.Step(policy, (obs,), {"temperature": temperature, "mask": mask}, refresh=refresh)
