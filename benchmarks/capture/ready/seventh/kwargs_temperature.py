"""Annealed sampling: the loop lowers the temperature in the step's keyword arguments after a while."""
import torch
from torch import nn

import graphsafe


class Policy(nn.Module):
    def __init__(self, dim=16, actions=9):
        super().__init__()
        self.body = nn.Linear(dim, actions)

    def forward(self, obs, *, temperature=1.0, mask=None):
        logits = self.body(obs) / temperature  # LINE: a Python number
        return logits.masked_fill(mask, -1e9).softmax(-1)


def build(device):
    torch.manual_seed(10)
    policy = Policy().to(device).eval().requires_grad_(False)
    obs = torch.randn(4, 16, device=device)
    mask = torch.zeros(4, 9, dtype=torch.bool, device=device)
    mask[:, 7] = True

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        kwargs["mask"].copy_(torch.rand(4, 9) < 0.2)
        if k >= 14:
            kwargs["temperature"] = max(0.2, 0.9 ** (k - 13))

    return graphsafe.Step(policy, (obs,), {"temperature": 1.0, "mask": mask}, refresh=refresh)
