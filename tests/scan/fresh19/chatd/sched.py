from dataclasses import dataclass, field

import torch

from .engine import Engine


@dataclass
class Request:
    prompt: int
    budget: int
    blocks: list[int] = field(default_factory=list)
    length: int = 0
    scores: list[torch.Tensor] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


class Scheduler:
    def __init__(self, engine: Engine, limit: int, device: torch.device):
        self.engine, self.limit, self.device = engine, limit, device
        self.waiting: list[Request] = []
        self.running: list[Request] = []

    def submit(self, request: Request) -> None:
        self.waiting.append(request)

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.limit:
            self.running.append(self.waiting.pop(0))

    def _rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        pool = self.engine.pool
        ids, slots, lens, table = [], [], [], []
        for r in self.running:
            if r.length % pool.block_size == 0:
                r.blocks.append(pool.take())
            slots.append(r.blocks[-1] * pool.block_size + r.length % pool.block_size)
            r.length += 1
            ids.append(r.tokens[-1] if r.tokens else r.prompt)
            lens.append(r.length)
            table.append(r.blocks + [0] * (self.engine.table.shape[1] - len(r.blocks)))
        rows = torch.tensor([ids, slots, lens]).pin_memory().to(self.device, non_blocking=True)
        return rows, torch.tensor(table).pin_memory().to(self.device, non_blocking=True)

    def tick(self) -> bool:
        self._admit()
        if not self.running:
            return False
        logits = self.engine.decode(*self._rows())
        picks = logits.argmax(-1)
        for i, request in enumerate(list(self.running)):
            request.tokens.append(picks[i].item())
            request.scores.append(logits[i])
            if len(request.tokens) >= request.budget:
                self.engine.pool.give(request.blocks)
                self.running.remove(request)
        return True
