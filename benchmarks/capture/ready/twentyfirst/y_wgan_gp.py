"""WGAN-GP critic step: double backward through autograd.grad."""
import torch
import torch.nn as nn

import graphsafe


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.shape[0], 1, device=real.device)
    mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)
    score = critic(mixed)
    (grad,) = torch.autograd.grad(
        score, mixed, grad_outputs=torch.ones_like(score), create_graph=True, retain_graph=True, only_inputs=True
    )
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


def build(device, batch=8, lam=10.0):
    torch.manual_seed(0)
    gen = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 12)).to(device)
    critic = nn.Sequential(nn.Linear(12, 24), nn.Softplus(), nn.Linear(24, 24), nn.Softplus(), nn.Linear(24, 1))
    critic = critic.to(device)
    opt = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9), capturable=True)
    real = torch.randn(batch, 12, device=device)

    def critic_step(real):
        with torch.no_grad():
            fake = gen(torch.randn(batch, 4, device=device))
        loss = critic(fake).mean() - critic(real).mean() + lam * gradient_penalty(critic, real, fake)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    return graphsafe.Step(critic_step, (real,), refresh=lambda a, kw, k: a[0].copy_(torch.randn(batch, 12)))
