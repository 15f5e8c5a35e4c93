import copy

import torch


class ModelEMA:
    def __init__(self, model, limit: float = 0.99):
        self.limit = limit
        self.updates = 0
        self.shadow = copy.deepcopy(model).requires_grad_(False)

    def decay(self) -> float:
        return min(self.limit, (1 + self.updates) / (10 + self.updates))

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        rate = 1.0 - self.decay()
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, rate)
