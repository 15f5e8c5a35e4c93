"""GraphSAGE trained with mean aggregation: gathers, atomics in forward and backward, SGD with weight decay."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe

NODES, EDGES = 150, 2000


class SageLayer(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.own, self.other = nn.Linear(n, m), nn.Linear(n, m, bias=False)

    def forward(self, x, source, target):
        total = torch.zeros_like(x).index_add(0, target, x.index_select(0, source))
        count = torch.zeros(len(x), device=x.device).scatter_add(0, target, torch.ones_like(target, dtype=x.dtype))
        return self.own(x) + self.other(total / count.clamp(min=1)[:, None])


class Sage(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = SageLayer(12, 32), SageLayer(32, 4)

    def forward(self, x, source, target):
        return self.second(F.relu(self.first(x, source, target)), source, target)


def build(device):
    model = Sage().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-2, foreach=True)
    x = torch.randn(NODES, 12, device=device)
    edges = torch.randint(NODES, (2, EDGES), device=device)
    y = torch.randint(4, (NODES,), device=device)

    def step(x, edges, y):
        optimizer.zero_grad(set_to_none=True)
        logits = model(x, *edges)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        return loss.detach(), logits.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(NODES, 12))
        args[1].copy_(torch.randint(NODES, (2, EDGES)))
        args[2].copy_(torch.randint(4, (NODES,)))

    return graphsafe.Step(step, (x, edges, y), {}, refresh=refresh)
