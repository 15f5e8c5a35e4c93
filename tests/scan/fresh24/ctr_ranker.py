"""Click-through ranking: hashed bags, sequence pooling, field interaction, calibrated score."""
import torch
from torch import nn

FIELDS = ("user", "item", "context", "shop")


class FieldTable:
    def __init__(self, rows, dim, device):
        self.rows = rows
        self.weight = torch.randn(rows, dim, device=device) * 0.05

    def lookup(self, ids):
        return self.weight.index_select(0, torch.remainder(ids, self.rows).reshape(-1)).unflatten(0, ids.shape)


class HistoryPooler:
    """Attention pooling over the clicked items of a user."""

    def __init__(self, dim, device):
        self.score = nn.Linear(2 * dim, 1).to(device)

    def __call__(self, history, target, lengths):
        longest = lengths.max()
        history = history[:, :longest]
        steps = torch.arange(history.shape[1], device=history.device)
        pair = torch.cat([history, target.unsqueeze(1).expand_as(history)], -1)
        w = self.score(pair).squeeze(-1)
        w = w.masked_fill(steps >= lengths[:, None], -1e4).softmax(-1)
        return (w.unsqueeze(-1) * history).sum(1)


class FieldCross:
    def __init__(self, dim, pairs):
        self.pairs = pairs
        self.left = [a for a, _ in pairs]
        self.right = [b for _, b in pairs]

    def __call__(self, fields):
        return (fields[:, self.left] * fields[:, self.right]).sum(-1)


class Calibrator:
    """Platt scaling with one pair of coefficients for each traffic source."""

    def __init__(self, sources, device):
        self.a = torch.ones(sources, device=device)
        self.b = torch.zeros(sources, device=device)
        self.prior = 0.031

    def __call__(self, logit, source):
        base = torch.tensor(self.prior, device=logit.device).logit()
        return torch.sigmoid(self.a[source] * logit + self.b[source] + base)


class Ranker:
    def __init__(self, dim, device):
        torch.manual_seed(3)
        self.tables = {name: FieldTable(977, dim, device) for name in FIELDS}
        self.pooler = HistoryPooler(dim, device)
        pairs = [(i, j) for i in range(len(FIELDS) + 1) for j in range(i)]
        self.cross = FieldCross(dim, pairs)
        self.top = nn.Sequential(nn.Linear(len(pairs) + (len(FIELDS) + 1) * dim, 32), nn.ReLU(),
                                 nn.Linear(32, 1)).to(device)
        self.calibrator = Calibrator(3, device)

    def embed(self, ids):
        return [self.tables[name].lookup(ids[:, i]) for i, name in enumerate(FIELDS)]

    def drop_blocked(self, scores, blocked):
        allowed = scores[~blocked]
        floor = allowed.min()
        return torch.where(blocked, floor - 1.0, scores)

    @torch.inference_mode()
    def rank(self, ids, clicked, lengths, source, blocked):
        fields = self.embed(ids)
        history = self.tables["item"].lookup(clicked)
        fields.append(self.pooler(history, fields[1], lengths))
        stacked = torch.stack(fields, 1)
        crossed = self.cross(stacked)
        logit = self.top(torch.cat([crossed, stacked.flatten(1)], 1)).squeeze(-1)
        scores = self.drop_blocked(self.calibrator(logit, source), blocked)
        best, order = scores.topk(min(8, scores.shape[0]))
        return best, order


def build(device, candidates=32):
    ranker = Ranker(16, device)
    ids = torch.randint(0, 100_000, (candidates, len(FIELDS)), device=device)
    clicked = torch.randint(0, 100_000, (candidates, 12), device=device)
    lengths = torch.randint(1, 13, (candidates,), device=device)
    source = torch.randint(0, 3, (candidates,), device=device)
    blocked = torch.rand(candidates, device=device) < 0.2
    return ranker.rank, (ids, clicked, lengths, source, blocked)
