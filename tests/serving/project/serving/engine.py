from __future__ import annotations

import torch

from .graph_runner import GraphRunner
from .kv_cache import PagedCache
from .model import Model
from .request import Request
from .sampler import Sampler
from .scheduler import Scheduler

END = 1


class Engine:
    def __init__(self, device: torch.device, block_size: int = 4, blocks: int = 64, most: int = 4) -> None:
        self.model = Model(vocabulary=64, hidden=32, heads=4, layers=2).to(device)
        self.cache = PagedCache(2, blocks, block_size, 4, 8, device)
        self.width = 8
        self.runner = GraphRunner(self.model, self.cache, [1, 2, most], self.width, device)
        self.sampler = Sampler()
        self.scheduler = Scheduler(blocks, block_size, most)

    def generate(self, requests: list[Request]) -> list[list[int]]:
        for request in requests:
            self.scheduler.add(request)
        while self.scheduler.running or self.scheduler.waiting:
            self.execute_model(self.scheduler.schedule())
            self.scheduler.finish(END)
        return [request.tokens for request in requests]

    def execute_model(self, batch: list[Request]) -> None:
        """One token for each request; prompts go in token by token."""
        size = self.cache.block_size
        last = [request.length - 1 for request in batch]
        ids = torch.tensor([(request.prompt + request.tokens)[at] for request, at in zip(batch, last, strict=True)])
        slots = torch.tensor([r.blocks[at // size] * size + at % size for r, at in zip(batch, last, strict=True)])
        table = torch.tensor([r.blocks + [0] * (self.width - len(r.blocks)) for r in batch])
        lengths = torch.tensor([request.length for request in batch])
        logits = self.runner.decode(ids, slots, table, lengths)
        if logits.isnan().any():  # guilty: GS102 step
            raise FloatingPointError("the model gave NaN")
        for request, token in zip(batch, self.sampler.sample(logits, batch), strict=True):
            request.tokens.append(token)
