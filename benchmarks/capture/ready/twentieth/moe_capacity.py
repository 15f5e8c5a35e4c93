"""GShard/Switch MoE with a fixed capacity: dispatch and combine by einsum, auxiliary loss, trained with Adam."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class SwitchMoe(nn.Module):
    def __init__(self, d=16, f=32, n=4, factor=1.25):
        super().__init__()
        self.n, self.factor = n, factor
        self.gate = nn.Linear(d, n, bias=False)
        self.w1 = nn.Parameter(torch.randn(n, d, f) * d**-0.5)
        self.w2 = nn.Parameter(torch.randn(n, f, d) * f**-0.5)

    def forward(self, x):
        s, d = x.shape
        cap = int(self.factor * s / self.n)
        logits = self.gate(x.float())
        if self.training:
            logits = logits * torch.empty_like(logits).uniform_(0.98, 1.02)
        probs = logits.softmax(-1)
        gate, expert = probs.max(-1)
        # the class count is given, so that one_hot need not look for the largest index
        onehot = (expert[:, None] == torch.arange(self.n, device=x.device)).to(x.dtype)
        aux = self.n * (onehot.mean(0) * probs.mean(0)).sum()
        position = (onehot.cumsum(0) - 1) * onehot
        keep = (position < cap) * onehot
        slot = (position.sum(-1).long()[:, None] == torch.arange(cap, device=x.device)).to(x.dtype)
        dispatch = keep[:, :, None] * slot[:, None, :]
        xs = torch.einsum("sec,sd->ecd", dispatch, x)
        ys = torch.bmm(F.gelu(torch.bmm(xs, self.w1)), self.w2)
        return torch.einsum("sec,ecd->sd", dispatch * gate[:, None, None], ys), aux


def build(device, tokens=24):
    moe = SwitchMoe().to(device).train()
    head = nn.Linear(16, 5).to(device)
    params = [*moe.parameters(), *head.parameters()]
    opt = torch.optim.Adam(params, lr=1e-3, capturable=True)
    x = torch.randn(tokens, 16, device=device)
    y = torch.randint(0, 5, (tokens,), device=device)

    def step(x, y):
        opt.zero_grad()
        out, aux = moe(x)
        loss = F.cross_entropy(head(x + out), y) + 0.01 * aux
        loss.backward()
        opt.step()
        return loss.detach(), aux.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(tokens, 16))
        args[1].copy_(torch.randint(0, 5, (tokens,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)
