from __future__ import annotations

import logging
from dataclasses import dataclass

import torch

from .nets import CachedLM

log = logging.getLogger("spec")


@dataclass
class Cursor:
    offset: int = 0

    def advance(self, n: int) -> None:
        self.offset += n


class Phase:
    """A piece of work that is captured once and then replayed."""

    def __init__(self):
        self.graph: torch.cuda.CUDAGraph | None = None

    def work(self) -> None:
        raise NotImplementedError

    def prepare(self, pool) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=pool):
                self.work()
        except RuntimeError as err:
            log.info("%s: %s", type(self).__name__, err)
        else:
            self.graph = graph

    def __call__(self) -> None:
        if self.graph is not None:
            self.graph.replay()
        else:
            self.work()


class Draft(Phase):
    def __init__(self, net: CachedLM, depth: int, cursor: Cursor, device):
        super().__init__()
        self.net, self.depth, self.cursor = net, depth, cursor
        self.seed = torch.zeros(1, dtype=torch.long, device=device)
        self.tokens = torch.zeros(depth, dtype=torch.long, device=device)
        self.base = torch.zeros(1, dtype=torch.long, device=device)

    def work(self) -> None:
        token = self.seed
        for i in range(self.depth):
            self.base.fill_(self.cursor.offset + i)
            token = self.net(token, self.base).argmax(-1)
            self.tokens[i : i + 1].copy_(token)


class Verify(Phase):
    def __init__(self, net: CachedLM, draft: Draft, device):
        super().__init__()
        self.net, self.draft = net, draft
        self.length = torch.zeros(1, dtype=torch.long, device=device)
        self.accepted = torch.zeros(1, dtype=torch.long, device=device)
        self.wanted = torch.zeros(draft.depth + 1, dtype=torch.long, device=device)

    def work(self) -> None:
        proposal = torch.cat((self.draft.seed, self.draft.tokens))
        wanted = self.net(proposal, self.length).argmax(-1)
        agree = (wanted[:-1] == self.draft.tokens).long().cumprod(0)
        self.accepted.copy_(agree.sum(0, keepdim=True))
        self.wanted.copy_(wanted)

    def settle(self) -> None:
        self.length = self.length + self.accepted + 1
        self.draft.seed.copy_(self.wanted.gather(0, self.accepted))
