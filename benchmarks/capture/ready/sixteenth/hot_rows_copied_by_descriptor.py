"""A recommender's cache of hot embedding rows: a descriptor copies the rows in place when others become hot."""
import torch

import graphsafe


class Resident:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return getattr(instance, self.name)

    def __set__(self, instance, rows):
        held = getattr(instance, self.name, None)
        if held is None:
            setattr(instance, self.name, rows.to(instance.device).clone())
        else:
            held.copy_(rows)


class HotCache:
    rows = Resident()

    def __init__(self, device, items=40, hot=8, dim=6):
        self.device = device
        self.store = torch.randn(items, dim)
        self.visits = [0] * items
        self.slots = {item: item for item in range(hot)}
        self.rows = self.store[:hot]

    def lookup(self, items):
        for item in items:
            self.visits[item] += 1
        return torch.tensor([self.slots.get(item, 0) for item in items])

    def admit(self):
        hot = sorted(range(len(self.visits)), key=self.visits.__getitem__, reverse=True)[: len(self.slots)]
        self.slots = {item: slot for slot, item in enumerate(hot)}
        self.rows = self.store[hot]


def build(device):
    cache = HotCache(device)
    tower = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1)).to(device)
    tower.requires_grad_(False)

    def score(slots):
        return tower(cache.rows[slots].view(4, 3, 6).mean(1)).squeeze(-1)

    def refresh(args, kwargs, k):
        if k % 16 == 15:
            cache.admit()
        args[0].copy_(cache.lookup([(7 * i * i + k) % 40 for i in range(12)]))

    return graphsafe.Step(score, (torch.zeros(12, dtype=torch.long, device=device),), refresh=refresh)
