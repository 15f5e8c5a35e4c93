"""SNGAN: spectral norm in the discriminator, weight norm in the generator, both updated in one step."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

import graphsafe


class Generator(nn.Module):
    def __init__(self, z=8):
        super().__init__()
        self.fc = nn.Linear(z, 8 * 4 * 4)
        self.up = weight_norm(nn.ConvTranspose2d(8, 8, 4, 2, 1))
        self.bn = nn.BatchNorm2d(8)
        self.out = weight_norm(nn.Conv2d(8, 3, 3, padding=1))

    def forward(self, z):
        h = self.fc(z).view(-1, 8, 4, 4)
        return torch.tanh(self.out(F.relu(self.bn(self.up(h)))))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = spectral_norm(nn.Conv2d(3, 8, 3, 2, 1))
        self.c2 = spectral_norm(nn.Conv2d(8, 16, 3, 2, 1))
        self.fc = spectral_norm(nn.Linear(16, 1))

    def forward(self, x):
        h = F.leaky_relu(self.c2(F.leaky_relu(self.c1(x), 0.1)), 0.1)
        return self.fc(h.mean((2, 3))).squeeze(-1)


class GAN:
    def __init__(self, device, batch=4):
        self.g, self.d = Generator().to(device), Discriminator().to(device)
        self.og = torch.optim.Adam(self.g.parameters(), lr=2e-4, betas=(0.0, 0.9), capturable=True)
        self.od = torch.optim.Adam(self.d.parameters(), lr=2e-4, betas=(0.0, 0.9), capturable=True)
        self.batch, self.device = batch, device

    def step(self, real):
        z = torch.randn(self.batch, 8, device=self.device)
        fake = self.g(z)
        d_loss = F.relu(1 - self.d(real)).mean() + F.relu(1 + self.d(fake.detach())).mean()
        self.od.zero_grad(set_to_none=True)
        d_loss.backward()
        self.od.step()
        g_loss = -self.d(fake).mean()
        self.og.zero_grad(set_to_none=True)
        g_loss.backward()
        self.og.step()
        return d_loss.detach(), g_loss.detach()


def build(device):
    torch.manual_seed(10)
    gan = GAN(device)
    real = torch.rand(4, 3, 8, 8, device=device) * 2 - 1
    return graphsafe.Step(gan.step, (real,), refresh=lambda a, kw, k: a[0].copy_(torch.rand(4, 3, 8, 8) * 2 - 1))
