"""Capturable Adamax over two groups; each group's rate is a device tensor that a chain of schedulers fills."""
import torch
import torch.nn as nn

import graphsafe


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Sequential(nn.Linear(20, 48), nn.SiLU(), nn.Linear(48, 16))
        self.item = nn.Sequential(nn.Linear(12, 48), nn.SiLU(), nn.Linear(48, 16))
        self.temperature = nn.Parameter(torch.tensor(2.0))

    def forward(self, q, i):
        a, b = nn.functional.normalize(self.query(q), dim=-1), nn.functional.normalize(self.item(i), dim=-1)
        return a @ b.T * self.temperature.exp()


def build(device):
    model = TwoTower().to(device)
    rates = torch.full((2,), 2e-3, device=device)
    on_gpu = device.type == "cuda"
    groups = [{"params": list(model.query.parameters()) + [model.temperature], "lr": rates[0] if on_gpu else 2e-3},
              {"params": list(model.item.parameters()), "lr": rates[1] if on_gpu else 2e-3}]
    optimizer = torch.optim.Adamax(groups, capturable=on_gpu, foreach=True)
    q, i = torch.zeros(24, 20, device=device), torch.zeros(24, 12, device=device)
    labels = torch.arange(24, device=device)

    def step(q, i):
        logits = model(q, i)
        loss = nn.functional.cross_entropy(logits, labels) + nn.functional.cross_entropy(logits.T, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        with torch.no_grad():
            model.temperature.clamp_(0.0, 4.0)
        return loss.detach(), logits.detach()

    def refresh(args, kwargs, k):
        shared = torch.randn(24, 12)
        args[1].copy_(shared)
        args[0].copy_(torch.cat([shared, torch.randn(24, 8)], 1))
        rates.copy_(torch.tensor([2e-3 * min(1.0, (k + 1) / 30), 2e-3 * 0.99**k]))

    return graphsafe.Step(step, (q, i), {}, refresh=refresh)
