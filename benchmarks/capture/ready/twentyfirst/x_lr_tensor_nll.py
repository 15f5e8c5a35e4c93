"""Adam with the learning rate in a tensor; the scheduler runs outside of the graph, between replays."""
import torch
import torch.nn as nn

import graphsafe


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU())
        self.mean = nn.Linear(32, 1)
        self.logvar = nn.Linear(32, 1)

    def forward(self, x):
        h = self.body(x)
        return self.mean(h).squeeze(-1), self.logvar(h).squeeze(-1)


def build(device):
    torch.manual_seed(2)
    model = Regressor().to(device)
    lr = torch.tensor(1e-3, device=device)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, capturable=True)
    x = torch.randn(16, 10, device=device)
    y = torch.randn(16, device=device)
    state = {"it": 0}

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        mean, logvar = model(x)
        loss = 0.5 * (logvar + (mean - y).pow(2) * (-logvar).exp()).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        state["it"] += 1
        value = 1e-3 * min(1.0, state["it"] / 100) * 0.999 ** state["it"]
        for group in optimizer.param_groups:
            group["lr"].fill_(value)
        args[0].copy_(torch.randn(16, 10))
        args[1].copy_(torch.randn(16))

    return graphsafe.Step(step, (x, y), refresh=refresh)
