"""Whole-step mixed-precision training: autocast, GradScaler, clipping, fused AdamW (docs recipe "typical mixed precision training")."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Mlp(nn.Module):
    def __init__(self, d=32, n_classes=10):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, n_classes))

    def forward(self, x):
        return self.net(x)


def build(device, batch=16):
    torch.manual_seed(0)
    model = Mlp().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True, capturable=True)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10, growth_interval=50)
    x = torch.randn(batch, 32, device=device)
    y = torch.randint(0, 10, (batch,), device=device)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False):
            logits = model(x)
            loss = F.cross_entropy(logits, y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        return loss.detach(), norm

    def refresh(args, kwargs, k):
        g = torch.Generator().manual_seed(100 + k)
        args[0].copy_(torch.randn(batch, 32, generator=g))
        args[1].copy_(torch.randint(0, 10, (batch,), generator=g))

    return graphsafe.Step(step, (x, y), refresh=refresh)
