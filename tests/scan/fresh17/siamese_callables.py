"""Contrastive training with a graphed encoder and a graphed projection."""
import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class Similarity(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.project = nn.Linear(width, width, bias=False)
        self.temperature = 0.5

    def forward(self, a, b):
        return self.project(a) @ b.t() / self.temperature


def noisy_pair(base):
    return base + 0.1 * torch.randn_like(base), base + 0.1 * torch.randn_like(base)


def main(device="cuda", rounds=10):
    torch.manual_seed(0)
    encoder, head = Encoder().to(device), Similarity().to(device)
    params = [*encoder.parameters(), *head.parameters()]
    opt = torch.optim.SGD(params, lr=0.1)
    sample = torch.randn(12, 16, device=device)
    z = torch.randn(12, 32, device=device, requires_grad=True)
    encode, compare = torch.cuda.make_graphed_callables((encoder, head), ((sample,), (z, z.detach().clone().requires_grad_())))
    labels = torch.arange(12, device=device)
    losses = torch.zeros(rounds, device=device)
    for i in range(rounds):
        left, right = noisy_pair(torch.randn(12, 16, device=device))
        a = encode(left)
        b = encode(right)
        logits = compare(a, b)
        loss = F.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses[i : i + 1].copy_(loss.detach())
        head.temperature = max(0.1, head.temperature * 0.9)
    print(losses)


if __name__ == "__main__":
    main()
