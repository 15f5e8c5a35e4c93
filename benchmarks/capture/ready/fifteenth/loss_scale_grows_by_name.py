"""Mixed-precision trainer whose own dynamic scaler is updated by the loop after each step."""
import torch

import graphsafe


class DynamicScaler:
    def __init__(self, device):
        self._scale = torch.full((1,), 2.0**10, device=device)
        self.growth_tracker, self.growth_interval = 0, 60
        self.former = []

    @property
    def scale(self):
        return self._scale

    @property
    def inv_scale(self):
        return self._scale.double().reciprocal().float()

    def update(self, found_inf):
        if found_inf:
            self.growth_tracker = 0
            self._scale = torch.clamp(self._scale * 0.5, min=1.0)
        else:
            self.growth_tracker += 1
            if self.growth_tracker == self.growth_interval:
                self.growth_tracker = 0
                self.former.append(self._scale)
                self._scale = self._scale * 2.0


class Trainer:
    def __init__(self, device):
        self.model = torch.nn.Linear(10, 3).to(device)
        self.scaler = DynamicScaler(device)
        self.scaled = torch.zeros(1, device=device)

    def step(self, x, y):
        self.model.zero_grad(set_to_none=False)
        loss = (self.model(x) - y).square().mean()
        (loss * self.scaler.scale).sum().backward()
        self.scaled.copy_(self.scaler.scale)
        with torch.no_grad():
            for p in self.model.parameters():
                p.sub_(p.grad * self.scaler.inv_scale, alpha=0.05)
        return loss.detach(), self.scaled.log2()


def build(device):
    trainer = Trainer(device)

    def refresh(args, kwargs, k):
        if k > 0:
            trainer.scaler.update(False)
        args[0].copy_(torch.randn(6, 10))
        args[1].copy_(torch.randn(6, 3))

    return graphsafe.Step(trainer.step, (torch.randn(6, 10, device=device), torch.randn(6, 3, device=device)), refresh=refresh)
