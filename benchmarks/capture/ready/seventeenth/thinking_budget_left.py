"""Reasoning requests with a budget of thought tokens: sound, budgets left are a device tensor."""
import torch

import graphsafe

END_OF_THOUGHT = 7
BUDGETS = (38, 52, 77)


class Budget:
    def __init__(self, device):
        self.left = torch.tensor(BUDGETS, device=device)
        self.forced = torch.full((16,), -1e4, device=device)
        self.forced[END_OF_THOUGHT] = 0.0

    def apply(self, logits):
        return torch.where(self.left.unsqueeze(1) <= 0, self.forced, logits)

    def spend(self):
        self.left.sub_(1)

    def restart(self, row):
        self.left[row] = BUDGETS[row]


def build(device, dim=8):
    budget = Budget(device)
    head = torch.randn(dim, 16, device=device)

    def step(hidden):
        logits = budget.apply(hidden @ head)
        return torch.softmax(logits, -1), logits.argmax(-1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(3, dim))
        budget.spend()
        if k % 60 == 0:
            budget.restart(0)

    return graphsafe.Step(step, (torch.randn(3, dim, device=device),), refresh=refresh)
