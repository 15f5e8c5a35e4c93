"""Training loops in plain PyTorch, as tutorials write them."""

import torch
import torch.nn.functional as F
from torch import nn


def encoder_training(device):
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(32, 8)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(2, 6, 32, device=device), torch.randint(0, 8, (2, 6), device=device))


def autocast_training(device):
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 4)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(16, 16, device=device), torch.randint(0, 4, (16,), device=device))


def recurrent_training(device):
    lstm, head = nn.LSTM(8, 16, batch_first=True).to(device), nn.Linear(16, 1).to(device)
    optimizer = torch.optim.RMSprop([*lstm.parameters(), *head.parameters()], lr=1e-3, capturable=True)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(head(lstm(x)[0][:, -1]), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(4, 10, 8, device=device), torch.randn(4, 1, device=device))


def adversarial_training(device):
    maker = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2)).to(device)
    judge = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)).to(device)
    of_maker = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.5, 0.999), capturable=True)
    of_judge = torch.optim.Adam(judge.parameters(), lr=1e-3, betas=(0.5, 0.999), capturable=True)

    def step(real):
        fake = maker(torch.randn(real.shape[0], 4, device=real.device))
        of_judge.zero_grad()
        loss = F.softplus(judge(fake.detach())).mean() + F.softplus(-judge(real)).mean()
        loss.backward()
        of_judge.step()
        of_maker.zero_grad()
        F.softplus(-judge(fake)).mean().backward()
        of_maker.step()
        return loss.detach()

    return step, (torch.randn(16, 2, device=device),)


def policy_gradient(device):
    """Samples actions and weighs their log-probabilities by advantages."""
    policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 3)).to(device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3, capturable=True)

    def step(states, advantages):
        chances = torch.distributions.Categorical(logits=policy(states))
        actions = chances.sample()
        loss = -(chances.log_prob(actions) * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(16, 6, device=device), torch.randn(16, device=device))


def plateau_training(device):
    """A scheduler that looks at the loss."""
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step(loss.detach())
        return loss.detach()

    return step, (torch.randn(16, 8, device=device), torch.randn(16, 1, device=device))
