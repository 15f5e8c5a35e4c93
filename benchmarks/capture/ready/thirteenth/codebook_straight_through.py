"""VQ autoencoder: nearest code by a custom Function with a straight-through gradient, codebook as a moving average in place."""
import torch
import torch.nn as nn

import graphsafe

CODES, WIDTH = 32, 8


class Nearest(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, book):
        index = (z.square().sum(-1, keepdim=True) - 2 * z @ book.T + book.square().sum(-1)).argmin(-1)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(z, index)
        return book.index_select(0, index), index

    @staticmethod
    def backward(ctx, gradient, unused):
        z, index = ctx.saved_tensors
        return gradient + 0.01 * z, None


class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, WIDTH))
        self.decode = nn.Sequential(nn.Linear(WIDTH, 32), nn.SiLU(), nn.Linear(32, 16))
        self.register_buffer("book", torch.randn(CODES, WIDTH, dtype=torch.float64))
        self.register_buffer("sums", self.book.clone())
        self.register_buffer("counts", torch.ones(CODES, dtype=torch.float64))

    def forward(self, x):
        z = self.encode(x).double()
        quantised, index = Nearest.apply(z, self.book)
        with torch.no_grad():
            one_hot = nn.functional.one_hot(index, CODES).to(z.dtype)
            self.counts.lerp_(one_hot.sum(0), 0.05)
            self.sums.lerp_(one_hot.T @ z, 0.05)
            fresh = self.sums / (self.counts + 1e-3)[:, None]
        loss = (self.decode(quantised.float()) - x).square().mean() + 0.25 * (z - quantised.detach()).square().mean().float()
        with torch.no_grad():
            self.book.copy_(fresh)
        return loss, index


def build(device):
    model = VQ().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.8)
    x = torch.zeros(64, 16, device=device)

    def step(x):
        loss, index = model(x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return loss.detach(), model.counts

    return graphsafe.Step(step, (x,), {}, refresh=lambda args, kwargs, k: args[0].copy_(torch.randn(64, 16)))
