from __future__ import annotations

from dataclasses import dataclass

import torch

from .draft import Drafter, DraftModel
from .verify import Target, accept


@dataclass
class SpecSettings:
    vocab: int = 4096
    draft_width: int = 128
    target_width: int = 512
    batch: int = 8
    window: int = 4
    seed: int = 17
    device: str = "cuda"


class SpecEngine:
    def __init__(self, settings: SpecSettings):
        s = self.settings = settings
        self.draft_model = DraftModel(s.vocab, s.draft_width).to(s.device).eval()
        self.target = Target(s.vocab, s.target_width).to(s.device).eval()
        self.drafter = Drafter(self.draft_model, s.window, s.seed, s.device)
        self.token = torch.zeros(s.batch, dtype=torch.long, device=s.device)
        self.state = torch.zeros(s.batch, s.draft_width, device=s.device)
        size = s.window + 1
        self.mask = torch.triu(torch.ones(size, size, device=s.device), 1).bool()
        self.graph = None
        self.out = None

    def _round(self):
        tokens, probs = self.drafter.propose(self.token, self.state)
        window = torch.cat([self.token[:, None], tokens], 1)
        kept, following = accept(self.target(window, self.mask), tokens, probs)
        self.token.copy_(following)
        return tokens, kept, following

    @torch.no_grad()
    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._round()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self._round()

    def round(self):
        self.graph.replay()
        return tuple(t.clone() for t in self.out)

    def start(self, token, state):
        self.token.copy_(token)
        self.state.copy_(state)

    def refresh_draft(self, distilled: dict[str, torch.Tensor]):
        """Takes over what the online distillation made of the drafter's output layer."""
        head = distilled["head.weight"].to(self.settings.device)
        self.draft_model.head.weight = torch.nn.Parameter(head, requires_grad=False)
        with torch.no_grad():
            self.draft_model.embed.weight.copy_(distilled["embed.weight"])

    def generate(self, token, state, rounds: int) -> torch.Tensor:
        self.start(token, state)
        lengths = torch.zeros(self.settings.batch, dtype=torch.long, device=self.settings.device)
        for _ in range(rounds):
            _, kept, _ = self.round()
            lengths += kept + 1
            if lengths.min().item() >= 256:
                break
        return lengths
