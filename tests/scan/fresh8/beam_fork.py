"""A stochastic beam step whose two heads run on two streams."""
from dataclasses import dataclass, replace

import torch
from torch import nn


@dataclass(frozen=True)
class Beams:
    tokens: torch.Tensor     # [beams, room]
    score: torch.Tensor      # [beams]
    length: int


class Heads(nn.Module):
    def __init__(self, vocab: int, width: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.shared = nn.Linear(width, width)
        self.next = nn.Linear(width, vocab)
        self.value = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))


class Search:
    def __init__(self, heads: Heads, beams: int, room: int, device, alpha: float = 0.6, seed: int = 0):
        self.heads = heads
        self.width = beams
        self.alpha = alpha
        self.seed = seed
        self.second = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.hope = torch.zeros(beams, device=device)
        self.beams = Beams(
            tokens=torch.zeros(beams, room, dtype=torch.int64, device=device),
            score=torch.zeros(beams, device=device),
            length=1,
        )

    def _judge(self, h: torch.Tensor) -> None:
        if self.second is None:
            self.hope.copy_(self.heads.value(h).squeeze(-1))
            return
        self.second.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.second):
            self.hope.copy_(self.heads.value(h).squeeze(-1))

    def _gumbel(self, shape, device) -> torch.Tensor:
        torch.manual_seed(self.seed)
        u = torch.rand(shape, device=device)
        return -(-(u + 1e-9).log() + 1e-9).log()

    def expand(self, last: torch.Tensor) -> torch.Tensor:
        now = self.beams
        h = torch.relu(self.heads.shared(self.heads.embed(last)))
        self._judge(h)
        logp = self.heads.next(h).log_softmax(-1)
        total = now.score[:, None] + logp + 0.1 * self._gumbel(logp.shape, logp.device)
        ranked = total / ((5 + now.length) / 6) ** self.alpha + 0.1 * self.hope[:, None]
        flat = ranked.flatten().topk(self.width).indices
        parent = flat // logp.shape[1]
        token = flat % logp.shape[1]
        tokens = now.tokens[parent]
        tokens[:, now.length] = token
        self.beams = replace(now, tokens=tokens, score=total.flatten()[flat], length=now.length + 1)
        return token


def best(search: Search):
    """Host side: the best hypothesis as plain integers."""
    beams = search.beams
    return beams.tokens[beams.score.argmax(), : beams.length].tolist()


def build(device):
    torch.manual_seed(2)
    heads = Heads(vocab=128, width=64).to(device).eval().requires_grad_(False)
    search = Search(heads, beams=4, room=4096, device=torch.device(device))
    last = torch.randint(0, 128, (4,), device=device)
    return search.expand, (last,)
