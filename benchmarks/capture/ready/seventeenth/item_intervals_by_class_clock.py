"""Two-tower retrieval, logits corrected by streaming estimates of item frequency: faulty, a class counts steps."""
import torch

import graphsafe


class Intervals:
    clock = 0

    def __init__(self, device, items=20, rate=0.3):
        self.last_seen = torch.zeros(items, device=device)
        self.interval = torch.ones(items, device=device)
        self.rate = rate

    def observe(self, items):
        Intervals.clock += 1
        passed = Intervals.clock - self.last_seen.index_select(0, items)
        estimate = torch.lerp(self.interval.index_select(0, items), passed, self.rate)
        self.interval.index_copy_(0, items, estimate)
        self.last_seen.index_fill_(0, items, Intervals.clock)
        return -torch.log(estimate.clamp(min=1.0))


def build(device, dim=6):
    intervals = Intervals(device)
    tower = torch.randn(20, dim, device=device)

    def step(users, items):
        correction = intervals.observe(items)
        logits = users @ tower.index_select(0, items).T - correction
        return -torch.log_softmax(logits, 1).diagonal().mean()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(5, dim))
        args[1].copy_(torch.randperm(20)[:5])

    args = (torch.randn(5, dim, device=device), torch.arange(5, device=device))
    return graphsafe.Step(step, args, refresh=refresh)
