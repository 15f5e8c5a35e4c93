"""A search keeps a copy of the best candidate so far, and begins again from it now and then; the host judges scores."""
import torch

import graphsafe


class Search:
    def __init__(self, device):
        self.goal = torch.randn(24, device=device)
        self.best, self.best_score = torch.zeros(24, device=device), float("inf")
        self.candidate, self.score = torch.zeros(24, device=device), torch.zeros((), device=device)
        self.found = []

    def step(self, x, noise):
        torch.add(x, noise, alpha=0.3, out=self.candidate)
        self.candidate.sub_(x - self.goal, alpha=0.02)
        torch.mean((self.candidate - self.goal).square(), 0, out=self.score)
        return self.candidate, self.score

    def judge(self, k):
        score = self.score.item()
        if score < self.best_score:
            self.best.copy_(self.candidate)
            self.best_score = score
            self.found = self.found[-9:] + [(k, self.candidate.clone())]


def build(device):
    search = Search(device)
    x, noise = torch.zeros(24, device=device), torch.zeros(24, device=device)

    def refresh(args, kwargs, k):
        if k:
            search.judge(k)
        if k % 60 == 59:
            args[0].copy_(search.found[0][1] if k == 119 and search.found else search.best)
        elif k:
            args[0].copy_(search.candidate)
        args[1].copy_(torch.randn(24))

    return graphsafe.Step(search.step, (x, noise), refresh=refresh)
