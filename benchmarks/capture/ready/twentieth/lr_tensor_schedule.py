"""AdamW whose learning rate is a device tensor; the loop runs the scheduler between steps."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up = nn.Linear(d, 4 * d)
        self.down = nn.Linear(4 * d, d)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


def build(device, batch=8, d=16):
    model = nn.Sequential(Block(d), Block(d), nn.Linear(d, 1)).to(device)
    lr = torch.tensor(1e-2, device=device)
    opt = torch.optim.AdamW(model.parameters(), lr=lr, capturable=True, foreach=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=100)
    x = torch.randn(batch, d, device=device)
    y = torch.randn(batch, 1, device=device)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        sched.step()  # fills the tensor that the graph reads
        args[0].copy_(torch.randn(batch, d))
        args[1].copy_(torch.randn(batch, 1))

    return graphsafe.Step(step, (x, y), refresh=refresh)
