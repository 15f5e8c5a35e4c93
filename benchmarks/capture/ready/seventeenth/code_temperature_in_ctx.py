"""A codebook chosen by straight-through softmax, annealed in training: faulty, ctx keeps a float temperature."""
import torch

import graphsafe


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, temperature):
        soft = torch.softmax(logits / temperature, -1)
        ctx.save_for_backward(soft)
        ctx.temperature = temperature
        return (soft == soft.amax(-1, keepdim=True)).to(soft.dtype)

    @staticmethod
    def backward(ctx, gradient):
        (soft,) = ctx.saved_tensors
        temperature = ctx.temperature
        inner = (gradient * soft).sum(-1, keepdim=True)
        return soft * (gradient - inner) / temperature, None


class Codebook(torch.nn.Module):
    def __init__(self, codes=6, dim=5):
        super().__init__()
        self.scores = torch.nn.Linear(dim, codes)
        self.codes = torch.nn.Parameter(torch.randn(codes, dim))
        self.temperature = 2.0

    def forward(self, x):
        return StraightThrough.apply(self.scores(x), self.temperature) @ self.codes

    def anneal(self):
        self.temperature = max(0.3, self.temperature * 0.8)


def build(device):
    model = Codebook().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(x):
        loss = torch.nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        return loss.detach(), model.scores.bias.detach().clone()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(12, 5))
        if k % 10 == 0:
            model.anneal()

    return graphsafe.Step(step, (torch.randn(12, 5, device=device),), refresh=refresh)
