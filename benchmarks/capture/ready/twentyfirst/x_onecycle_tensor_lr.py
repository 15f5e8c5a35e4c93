"""AdamW with the rate in a tensor, but OneCycleLR.step() runs inside of the step."""
import torch
import torch.nn as nn

import graphsafe


def build(device, total=2000):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(10, 32), nn.Mish(), nn.Dropout(0.1), nn.Linear(32, 1)).to(device)
    lr = torch.tensor(1e-3, device=device)
    opt = torch.optim.AdamW(model.parameters(), lr=lr, capturable=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1e-2, total_steps=total, cycle_momentum=False)
    x = torch.randn(16, 10, device=device)
    y = torch.randn(16, 1, device=device)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = nn.functional.l1_loss(model(x), y)
        loss.backward()
        opt.step()
        sched.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 10))
        args[1].copy_(torch.randn(16, 1))

    return graphsafe.Step(step, (x, y), refresh=refresh)
