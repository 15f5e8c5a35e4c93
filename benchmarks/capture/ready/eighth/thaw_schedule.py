"""Fine-tuning in turns: the encoder learns for five steps, then rests for three while only the head learns."""
import torch
from torch import nn

import graphsafe


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.encoder = nn.Linear(features, 16)
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.encoder(x)))

    def set_phase(self, k):
        self.encoder.requires_grad_(k % 8 < 5)  # <-B


def build(device, batch=8, features=12):
    model = Model(features).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(batch, features).to(device)
    y = torch.randn(batch, 1).to(device)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()  # <-A
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, features))
        args[1].copy_(torch.randn(batch, 1))
        model.set_phase(k)

    return graphsafe.Step(step, (x, y), refresh=refresh)
