"""Contrastive training of a small two-view encoder."""
import torch
import torch.nn.functional as F
from torch import nn


class TwoTower(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, width), nn.GELU(), nn.Linear(width, width))
        self.log_t = nn.Parameter(torch.zeros(()))

    def forward(self, views):
        z = F.normalize(self.net(views), dim=-1)
        left, right = z.chunk(2)
        return left @ right.t() * self.log_t.exp() * 5.0


class Meter:
    def __init__(self, n, device):
        self.values = torch.zeros(n, device=device)
        self.i = 0

    def add(self, value):
        self.values.narrow(0, self.i, 1).copy_(value.detach())
        self.i += 1


def views(rows, device):
    base = torch.randn(rows, 16, device=device)
    return torch.cat([base + 0.1 * torch.randn_like(base), base + 0.1 * torch.randn_like(base)])


def main(device="cuda", rounds=12, rows=12):
    torch.manual_seed(0)
    tower = TwoTower().to(device)
    tower = torch.cuda.make_graphed_callables(tower, (torch.randn(2 * rows, 16, device=device),))
    opt = torch.optim.AdamW(tower.parameters(), lr=1e-2)
    target = torch.arange(rows, device=device)
    meter = Meter(rounds, device)
    for _ in range(rounds):
        logits = tower(views(rows, device))
        loss = 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        meter.add(loss)
    print(meter.values.tolist())


if __name__ == "__main__":
    main()
