"""Steps of entmax: sparse attention, sparse classifiers, budgets."""

import torch
from torch import nn


def sparse_attention(device):
    """Attention whose weights are entmax of a learnt alpha, trained."""
    from entmax import entmax15, entmax_bisect, sparsemax

    query, key = nn.Linear(16, 16).to(device), nn.Linear(16, 16).to(device)
    alpha = nn.Parameter(torch.full((1,), 1.3, device=device))
    optimizer = torch.optim.Adam([*query.parameters(), *key.parameters(), alpha], lr=1e-3)

    def step(x):
        scores = query(x) @ key(x).transpose(-1, -2)
        out = sparsemax(scores, dim=-1) @ x + entmax15(scores, dim=-1) @ x + entmax_bisect(scores, alpha, dim=-1) @ x
        loss = out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(2, 8, 16, device=device),)


def sparse_losses(device):
    """Losses of sparse classifiers."""
    from entmax import Entmax15Loss, EntmaxBisectLoss, SparsemaxLoss

    model = nn.Linear(16, 10).to(device)
    losses = [SparsemaxLoss(), Entmax15Loss(k=5), EntmaxBisectLoss(alpha=1.7, n_iter=20)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        logits = model(x)
        loss = sum(criterion(logits, y) for criterion in losses)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(8, 16, device=device), torch.randint(0, 10, (8,), device=device))


def budgeted_selection(device):
    """A budget of tokens that a selector keeps; k of the largest scores are looked at first."""
    from entmax import budget_bisect, entmax15, normmax_bisect, sparsemax

    def step(scores):
        kept = budget_bisect(scores, budget=3, dim=-1)
        return kept, sparsemax(scores, k=4), entmax15(scores, k=2), normmax_bisect(scores, alpha=2, dim=-1)

    return step, (torch.randn(4, 16, device=device),)
