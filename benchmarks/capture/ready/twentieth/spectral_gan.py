"""SN-GAN training: spectral-norm discriminator, weight-norm generator, one D and one G update in a step."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

import graphsafe


def generator(z=8):
    return nn.Sequential(
        weight_norm(nn.Linear(z, 32)), nn.ReLU(), nn.Unflatten(1, (8, 2, 2)),
        nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1), nn.Tanh(),
    )


def discriminator():
    return nn.Sequential(
        spectral_norm(nn.Conv2d(1, 8, 3, 2, 1)), nn.LeakyReLU(0.2),
        spectral_norm(nn.Conv2d(8, 16, 3, 2, 1)), nn.LeakyReLU(0.2), nn.Flatten(), spectral_norm(nn.Linear(16, 1)),
    )


class GanTrainer:
    def __init__(self, device, z=8):
        self.z = z
        self.g, self.d = generator(z).to(device), discriminator().to(device)
        kw = dict(lr=2e-4, betas=(0.0, 0.9), capturable=True)
        self.og = torch.optim.Adam(self.g.parameters(), **kw)
        self.od = torch.optim.Adam(self.d.parameters(), **kw)

    def step(self, real):
        z = torch.randn(real.shape[0], self.z, device=real.device)
        with torch.no_grad():
            fake = self.g(z)
        d_loss = F.relu(1 - self.d(real)).mean() + F.relu(1 + self.d(fake)).mean()
        self.od.zero_grad(set_to_none=True)
        d_loss.backward()
        self.od.step()

        z = torch.randn(real.shape[0], self.z, device=real.device)
        self.d.requires_grad_(False)
        g_loss = -self.d(self.g(z)).mean()
        self.og.zero_grad(set_to_none=True)
        g_loss.backward()
        self.og.step()
        self.d.requires_grad_(True)
        return d_loss.detach(), g_loss.detach()


def build(device, batch=6):
    trainer = GanTrainer(device)
    real = torch.randn(batch, 1, 4, 4, device=device)
    return graphsafe.Step(trainer.step, (real,), refresh=lambda a, k, i: a[0].copy_(torch.randn(batch, 1, 4, 4)))
