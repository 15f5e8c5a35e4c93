"""Mixed-precision trainer whose scaler writes its scale in place and whose update is skipped on the device."""
import torch

import graphsafe


class DynamicScaler:
    def __init__(self, device):
        self._scale = torch.full((1,), 2.0**10, device=device)
        self.growth_tracker, self.growth_interval = 0, 13

    @property
    def inv_scale(self):
        return self._scale.double().reciprocal().float()

    def update(self, found_inf):
        if found_inf:
            self.growth_tracker = 0
            self._scale.mul_(0.5).clamp_(min=1.0)
            return
        self.growth_tracker += 1
        if self.growth_tracker == self.growth_interval:
            self.growth_tracker = 0
            self._scale.mul_(2.0)


class Trainer:
    def __init__(self, device):
        self.model = torch.nn.Linear(10, 3).to(device)
        self.scaler = DynamicScaler(device)
        self.found_inf = torch.zeros(1, device=device)

    def step(self, x, y):
        self.model.zero_grad(set_to_none=False)
        loss = (self.model(x) - y).square().mean()
        (loss * self.scaler._scale).sum().backward()
        with torch.no_grad():
            self.found_inf.zero_()
            for p in self.model.parameters():
                self.found_inf.copy_(torch.maximum(self.found_inf, (~torch.isfinite(p.grad)).any().float()))
            for p in self.model.parameters():
                new = p - 0.05 * p.grad * self.scaler.inv_scale
                p.copy_(torch.where(self.found_inf > 0, p, new))
        return self.found_inf + 0, self.scaler._scale.log2(), self.model.weight.detach().sum(0)


def build(device):
    trainer = Trainer(device)

    def refresh(args, kwargs, k):
        if k > 0:
            trainer.scaler.update(bool(trainer.found_inf.item()))
        args[0].copy_(torch.randn(6, 10))
        args[1].copy_(torch.randn(6, 3))
        if k % 31 == 30:
            args[1][0].fill_(float("inf"))

    return graphsafe.Step(trainer.step, (torch.randn(6, 10, device=device), torch.randn(6, 3, device=device)), refresh=refresh)
