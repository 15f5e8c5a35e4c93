"""A hand-written schedule-free SGD: iterate z, average x, and the point y at which gradients are taken."""
import torch

import graphsafe


class ScheduleFree:
    def __init__(self, params, lr=0.1, beta=0.9, warmup=10):
        self.params = list(params)
        self.z = [p.detach().clone() for p in self.params]
        self.group = {"lr": lr, "beta": beta, "warmup": warmup, "k": 0, "weight_sum": 0.0}

    @torch.no_grad()
    def step(self):
        group = self.group
        lr = group["lr"] * min(1.0, (group["k"] + 1) / group["warmup"])
        weight = lr**2
        group["weight_sum"] += weight
        c = weight / group["weight_sum"]
        for p, z in zip(self.params, self.z):
            # y -> y + c (z - y) + lr (beta (1 - c) - 1) g
            p.lerp_(z, c)
            p.add_(p.grad, alpha=lr * (group["beta"] * (1 - c) - 1))
            z.sub_(p.grad, alpha=lr)
        group["k"] += 1


class Trainer:
    def __init__(self, device):
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).to(device)
        self.optimizer = ScheduleFree(self.model.parameters())

    def step(self, x, y):
        self.model.zero_grad(set_to_none=False)
        loss = (self.model(x) - y).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach(), self.model[2].weight.detach() + 0


def build(device):
    trainer = Trainer(device)

    def refresh(args, kwargs, k):
        x = torch.randn(8, 8)
        args[0].copy_(x)
        args[1].copy_(x[:, :2].sin())

    return graphsafe.Step(trainer.step, (torch.randn(8, 8, device=device), torch.randn(8, 2, device=device)), refresh=refresh)
