"""A functional training step takes parameters and momenta: sound, its rate is a tensor which falls at step sixty."""
import torch
from torch.func import functional_call, grad_and_value

import graphsafe


def build(device):
    model = torch.nn.Sequential(torch.nn.Linear(6, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1)).to(device)
    params = {name: value.detach().clone() for name, value in model.named_parameters()}
    momenta = {name: torch.zeros_like(value) for name, value in params.items()}
    schedule = {"rate": torch.tensor(0.1, device=device)}

    def loss_of(params, x, y):
        return (functional_call(model, params, (x,)) - y).square().mean()

    def train(params, momenta, x, y):
        grads, loss = grad_and_value(loss_of)(params, x, y)
        for name, value in params.items():
            momenta[name].mul_(0.9).add_(grads[name])
            value.sub_(schedule["rate"] * momenta[name])
        return loss

    def refresh(args, kwargs, k):
        rows = torch.randn(16, 6)
        args[2].copy_(rows)
        args[3].copy_(rows.sin().sum(1, keepdim=True))
        schedule["rate"].fill_(0.1 if k < 60 else 0.01)

    args = (params, momenta, torch.randn(16, 6, device=device), torch.randn(16, 1, device=device))
    return graphsafe.Step(train, args, refresh=refresh)
