"""Fine-tuning one projection with torch's Adafactor."""

import torch

import graphsafe


def build(device):
    layer = torch.nn.Linear(16, 16).to(device)
    optimizer = torch.optim.Adafactor(layer.parameters(), lr=0.02)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = torch.nn.functional.mse_loss(layer(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16))
        args[1].copy_(torch.randn(8, 16))

    args = (torch.randn(8, 16, device=device), torch.randn(8, 16, device=device))
    return graphsafe.Step(step, args, refresh=refresh)
