"""A variational autoencoder with plain Adam."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class VAE(nn.Module):
    def __init__(self, dim=32, z=4):
        super().__init__()
        self.fc1 = nn.Linear(dim, 24)
        self.mu, self.logvar = nn.Linear(24, z), nn.Linear(24, z)
        self.fc3, self.fc4 = nn.Linear(z, 24), nn.Linear(24, dim)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        mu, logvar = self.mu(h), self.logvar(h)
        std = torch.exp(0.5 * logvar)
        z = mu + torch.randn_like(std) * std
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


def loss_function(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


def build(device):
    torch.manual_seed(18)
    model = VAE().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = torch.rand(8, 32, device=device)

    def train_step(data):
        optimizer.zero_grad()
        recon, mu, logvar = model(data)
        loss = loss_function(recon, data, mu, logvar)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return graphsafe.Step(train_step, (data,), refresh=lambda a, kw, k: a[0].copy_(torch.rand(8, 32)))
