"""The embedding joins the optimizer once the head has settled."""
import torch
from torch import nn

import graphsafe


def build(device):
    body, head = nn.Linear(8, 8).to(device), nn.Linear(8, 2).to(device)
    opt = torch.optim.SGD(head.parameters(), lr=0.01)
    body.weight.grad = torch.zeros_like(body.weight)
    body.bias.grad = torch.zeros_like(body.bias)

    def train(x, y):
        opt.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(head(body(x).relu()), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 8))
        if k == 125:
            opt.add_param_group({"params": list(body.parameters()), "lr": 0.1})

    return graphsafe.Step(train, (torch.randn(16, 8, device=device), torch.randint(2, (16,), device=device)), refresh=refresh)
