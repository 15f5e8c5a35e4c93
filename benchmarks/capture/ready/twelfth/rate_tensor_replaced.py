"""RAdam with its rate in a tensor. The loop's warm restarts put a new rate tensor into the groups."""

import torch

import graphsafe


def build(device):
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.RAdam(model.parameters(), lr=torch.tensor(0.01, device=device), capturable=True)

    def step(x):
        optimizer.zero_grad(set_to_none=False)
        loss = (model(x).squeeze(-1) - x.sin().sum(-1)).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 6))
        if k == 125:  # restart
            for group in optimizer.param_groups:
                group["lr"] = torch.tensor(0.05, device=device)

    return graphsafe.Step(step, (torch.randn(16, 6, device=device),), refresh=refresh)
