"""One beam-search step; a manager owns the beams."""

from dataclasses import dataclass, field

import torch
from torch import nn

EOS = 2


@dataclass(frozen=True)
class BeamConfig:
    width: int = 4
    vocab: int = 32
    hidden: int = 16


class Scorer(nn.Module):
    def __init__(self, config: BeamConfig):
        super().__init__()
        self.embed = nn.Embedding(config.vocab, config.hidden)
        self.head = nn.Linear(config.hidden, config.vocab)

    def forward(self, tokens, context):
        return torch.log_softmax(self.head(self.embed(tokens) + context), dim=-1)


@dataclass
class BeamManager:
    config: BeamConfig
    scores: torch.Tensor
    tokens: torch.Tensor
    history: torch.Tensor
    finished: list = field(default_factory=list)

    @classmethod
    def fresh(cls, config, device):
        return cls(
            config=config,
            scores=torch.zeros(config.width, device=device),
            tokens=torch.ones(config.width, dtype=torch.long, device=device),
            history=torch.empty(0, config.width, dtype=torch.long, device=device),
        )

    def advance(self, logp):
        total = self.scores.unsqueeze(1) + logp
        best, where = total.flatten().topk(self.config.width)
        token = where % self.config.vocab
        self.scores.copy_(best - best.max())
        self.tokens.copy_(token)
        self.history = torch.cat([self.history, token[None]])
        self._retire(token)
        return torch.div(where, self.config.vocab, rounding_mode="floor")

    def _retire(self, token):
        for slot, value in enumerate(token.tolist()):
            if value == EOS:
                self.finished.append(slot)


class BeamSearch:
    def __init__(self, config, device):
        self.scorer = Scorer(config).to(device).eval()
        self.beams = BeamManager.fresh(config, device)

    @torch.no_grad()
    def step(self, context):
        logp = self.scorer(self.beams.tokens, context)
        return self.beams.advance(logp)


def build(device):
    config = BeamConfig()
    search = BeamSearch(config, device)
    return search.step, (torch.randn(config.width, config.hidden, device=device),)
