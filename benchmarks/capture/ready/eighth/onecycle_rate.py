"""Training with a capturable Adam, a rate on the device, and a one-cycle schedule that leaves the betas alone."""
import torch
from torch import nn

import graphsafe


def build(device, batch=8, features=12):
    model = nn.Sequential(nn.Linear(features, 24), nn.SiLU(), nn.Linear(24, 1)).to(device)
    rate = torch.tensor(5e-3, device=device)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, capturable=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=2e-2, total_steps=60, pct_start=0.4, anneal_strategy="linear", cycle_momentum=False
    )
    x = torch.randn(batch, features).to(device)
    y = torch.randn(batch, 1).to(device)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, features))
        args[1].copy_(torch.randn(batch, 1))
        if schedule.last_epoch < 59:
            schedule.step()

    return graphsafe.Step(step, (x, y), refresh=refresh)
