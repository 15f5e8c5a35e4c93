"""Model ensembling of the torch.func tutorial: stack_module_state, functional_call and vmap, in training."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

import graphsafe


class SimpleMLP(nn.Module):
    def __init__(self, din=12, hidden=16, out=4):
        super().__init__()
        self.fc1 = nn.Linear(din, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, out)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def build(device, members=3, batch=8, lr=0.05):
    torch.manual_seed(8)
    models = [SimpleMLP().to(device) for _ in range(members)]
    params, buffers = stack_module_state(models)
    params = {k: v.detach() for k, v in params.items()}
    skeleton = copy.deepcopy(models[0]).to("meta")
    velocity = {k: torch.zeros_like(v) for k, v in params.items()}

    def loss_fn(p, b, x, y):
        return F.cross_entropy(functional_call(skeleton, (p, b), (x,)), y)

    per_member = vmap(grad_and_value(loss_fn), in_dims=(0, 0, None, None))

    def train_step(x, y):
        grads, losses = per_member(params, buffers, x, y)
        for name, p in params.items():
            velocity[name].mul_(0.9).add_(grads[name])
            p.sub_(velocity[name], alpha=lr)
        return losses

    x = torch.randn(batch, 12, device=device)
    y = torch.randint(4, (batch,), device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 12))
        args[1].copy_(torch.randint(4, (batch,)))

    return graphsafe.Step(train_step, (x, y), refresh=refresh)
