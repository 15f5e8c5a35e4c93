"""A hand-written schedule-free SGD whose step count and sum of weights are tensors on the device."""
import torch

import graphsafe


class ScheduleFree:
    def __init__(self, params, lr=0.1, beta=0.9, warmup=10):
        self.params = list(params)
        self.z = [p.detach().clone() for p in self.params]
        device = self.params[0].device
        self.steps = torch.zeros((), device=device)
        self.weight_sum = torch.zeros((), device=device)
        self.group = {"lr": lr, "beta": beta, "warmup": warmup, "k": 0}

    @torch.no_grad()
    def step(self):
        group = self.group
        self.steps.add_(1)
        lr = group["lr"] * (self.steps / group["warmup"]).clamp(max=1.0)
        weight = lr.square()
        self.weight_sum.add_(weight)
        c = weight / self.weight_sum
        for p, z in zip(self.params, self.z):
            p.add_(c * (z - p))
            p.add_(p.grad * (lr * (group["beta"] * (1 - c) - 1)))
            z.sub_(p.grad * lr)
        group["k"] += 1


class Trainer:
    def __init__(self, device):
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).to(device)
        self.optimizer = ScheduleFree(self.model.parameters())
        self.lines = []

    def step(self, x, y):
        self.model.zero_grad(set_to_none=False)
        loss = (self.model(x) - y).square().mean()
        loss.backward()
        self.optimizer.step()
        if self.optimizer.group["k"] % 20 == 0:
            self.lines.append(f"step {self.optimizer.group['k']}")
        return loss.detach(), self.model[2].weight.detach() + 0


def build(device):
    trainer = Trainer(device)

    def refresh(args, kwargs, k):
        x = torch.randn(8, 8)
        args[0].copy_(x)
        args[1].copy_(x[:, :2].sin())

    return graphsafe.Step(trainer.step, (torch.randn(8, 8, device=device), torch.randn(8, 2, device=device)), refresh=refresh)
