"""VAE training with torch.distributions (arguments validated by default) and kl_divergence."""
import torch
import torch.nn as nn
from torch.distributions import Normal, kl_divergence

import graphsafe


class VAE(nn.Module):
    def __init__(self, d=12, z=4):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, 24), nn.ReLU(), nn.Linear(24, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, 24), nn.ReLU(), nn.Linear(24, d))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, -1)
        q = Normal(mu, (0.5 * logvar).exp())
        p = Normal(torch.zeros_like(mu), torch.ones_like(mu))
        z = q.rsample()
        return self.dec(z), kl_divergence(q, p).sum(-1).mean()


def build(device, batch=8):
    vae = VAE().to(device)
    opt = torch.optim.Adam(vae.parameters(), lr=1e-3, capturable=True)
    x = torch.randn(batch, 12, device=device)

    def step(x):
        opt.zero_grad(set_to_none=True)
        recon, kl = vae(x)
        loss = (recon - x).square().sum(-1).mean() + kl
        loss.backward()
        opt.step()
        return loss.detach(), kl.detach()

    return graphsafe.Step(step, (x,), refresh=lambda a, k, i: a[0].copy_(torch.randn(batch, 12)))
