"""Training a linear-chain CRF: the forward recursion runs in a Python loop, lengths mask it on the device."""

import torch

import graphsafe


class Crf(torch.nn.Module):
    def __init__(self, tags, width):
        super().__init__()
        self.emit = torch.nn.Linear(width, tags)
        self.move = torch.nn.Parameter(torch.zeros(tags, tags))

    def forward(self, x, tags, lengths):
        e = self.emit(x)
        alpha, total = e[:, 0], e[:, 0].gather(1, tags[:, :1]).squeeze(1)
        for t in range(1, x.shape[1]):
            live = t < lengths
            step = torch.logsumexp(alpha[:, :, None] + self.move, 1) + e[:, t]
            gain = self.move[tags[:, t - 1], tags[:, t]] + e[:, t].gather(1, tags[:, t : t + 1]).squeeze(1)
            alpha = torch.where(live[:, None], step, alpha)
            total = total + torch.where(live, gain, torch.zeros_like(gain))
        return (torch.logsumexp(alpha, 1) - total).mean()


def build(device):
    crf = Crf(5, 8).to(device)
    params = list(crf.parameters())

    def step(x, tags, lengths):
        loss = crf(x, tags, lengths)
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            for p, g in zip(params, grads, strict=False):
                p -= 0.05 * g
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 7, 8))
        args[1].copy_(torch.randint(5, (4, 7)))
        args[2].copy_(torch.randint(2, 8, (4,)))

    args = (torch.randn(4, 7, 8, device=device), torch.randint(5, (4, 7), device=device))
    return graphsafe.Step(step, (*args, torch.full((4,), 7, device=device)), refresh=refresh)
