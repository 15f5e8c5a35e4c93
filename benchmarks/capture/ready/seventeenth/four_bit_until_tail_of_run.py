"""Training with four-bit weights, the tail of the run without rounding: faulty, a class attribute turns it off."""
import torch

import graphsafe


class Recipe:
    four_bit = True


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        scale = weight.abs().amax(1, keepdim=True).clamp(min=1e-6) / 6
        return torch.round(weight / scale) * scale if Recipe.four_bit else weight.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Linear(torch.nn.Linear):
    def forward(self, x):
        return torch.nn.functional.linear(x, Rounded.apply(self.weight), self.bias)


def build(device):
    model = torch.nn.Sequential(Linear(6, 8), torch.nn.ReLU(), Linear(8, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    Recipe.four_bit = True

    def step(x, y):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 6))
        args[1].copy_(args[0].norm(dim=1, keepdim=True))
        if k == 57:
            Recipe.four_bit = False

    return graphsafe.Step(step, (torch.randn(16, 6, device=device), torch.randn(16, 1, device=device)), refresh=refresh)
