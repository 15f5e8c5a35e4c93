"""StyleGAN2's lazy regularisation: the gradient penalty is computed in every 16th discriminator step."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.Softplus(), nn.Flatten(), nn.Linear(8 * 16, 1))

    def forward(self, x):
        return self.net(x)


class Loss:
    def __init__(self, device, every=16, gamma=10.0):
        self.d = Critic().to(device)
        self.opt = torch.optim.Adam(self.d.parameters(), lr=2e-3, betas=(0.0, 0.99), capturable=True)
        self.every, self.gamma = every, gamma
        self.batch_idx = 0

    def train_d(self, real, fake):
        self.opt.zero_grad(set_to_none=True)
        loss = F.softplus(self.d(fake)).mean() + F.softplus(-self.d(real)).mean()
        loss.backward()
        if self.batch_idx % self.every == 0:
            x = real.detach().requires_grad_(True)
            (g,) = torch.autograd.grad(self.d(x).sum(), x, create_graph=True)
            r1 = g.square().sum((1, 2, 3)).mean() * (self.gamma / 2) * self.every
            r1.backward()
        self.opt.step()
        self.batch_idx += 1
        return loss.detach()


def build(device, n=4):
    loss = Loss(device)
    real, fake = torch.randn(n, 1, 8, 8, device=device), torch.randn(n, 1, 8, 8, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(n, 1, 8, 8))
        args[1].copy_(torch.randn(n, 1, 8, 8))

    return graphsafe.Step(loss.train_d, (real, fake), refresh=refresh)
