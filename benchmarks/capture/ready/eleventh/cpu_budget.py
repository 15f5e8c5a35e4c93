"""A solver relaxes its tolerance once the process has used its budget of CPU seconds."""
import resource

import torch

import graphsafe

IDLE = 8.0


class Budget:
    def __init__(self, seconds):
        self.start, self.seconds = self.used(), seconds

    @staticmethod
    def used():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    def spent(self):
        return self.used() - self.start > self.seconds


def build(device):
    a = torch.eye(16, device=device) * 0.5 + torch.randn(16, 16).to(device) * 0.02
    budget = Budget(7.0)

    def solve(b):
        x = b
        for _ in range(2 if budget.spent() else 8):
            x = b - x @ a
        return x

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))

    return graphsafe.Step(solve, (torch.randn(4, 16, device=device),), refresh=refresh)
