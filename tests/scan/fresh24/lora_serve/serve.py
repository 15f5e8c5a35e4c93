from dataclasses import dataclass, field

import torch

from adapters import AdapterPool, random_adapter
from model import RecurrentLM, StateTable
from runner import GraphRunner

EOS = 3


@dataclass
class Request:
    name: str
    adapter: str
    first: int
    limit: int
    row: int = -1
    tokens: list = field(default_factory=list)


class Engine:
    def __init__(self, device, dim=24, vocab=64, rows=16):
        torch.manual_seed(0)
        self.device = device
        self.dim = dim
        self.pool = AdapterPool(dim, 8, 6, device)
        self.states = StateTable(rows + 1, dim, device)
        self.runner = GraphRunner(RecurrentLM(vocab, dim, device), self.pool, self.states, device)
        self.free = list(range(rows))
        self.running = []
        self.tokens = self.rows = self.slots = None

    def add_adapter(self, name, rank):
        self.pool.load(name, *random_adapter(rank, self.dim, self.device), alpha=2.0)

    def submit(self, request):
        request.row = self.free.pop(0)
        self.states.clear(request.row)
        last = [] if self.tokens is None else [self.tokens]
        first = torch.full((1,), request.first, dtype=torch.long, device=self.device)
        self.tokens = torch.cat([*last, first])
        self.running.append(request)
        self._rebuild()

    def _rebuild(self):
        self.rows = torch.tensor([r.row for r in self.running], device=self.device)
        self.slots = torch.tensor([self.pool.slot(r.adapter) for r in self.running], device=self.device)

    def step(self):
        new = self.runner.decode(self.tokens, self.rows, self.slots)
        for request, token in zip(self.running, new.unbind()):
            request.tokens.append(token)
        self.tokens = new
        ended = [len(r.tokens) >= r.limit for r in self.running]
        if (new == EOS).any():
            ended = [e or t == EOS for e, t in zip(ended, new.tolist())]
        return self._retire(ended) if True in ended else []

    def _retire(self, ended):
        done = [r for r, e in zip(self.running, ended) if e]
        keep = [i for i, e in enumerate(ended) if not e]
        self.running = [self.running[i] for i in keep]
        self.tokens = torch.stack([self.tokens[i] for i in keep]) if keep else None
        self.free.extend(r.row for r in done)
        self._rebuild()
        return done


@torch.inference_mode()
def main():
    engine = Engine(torch.device("cuda"))
    engine.add_adapter("legal", 2)
    arrivals = {0: ("a", "legal"), 1: ("b", "base"), 2: ("c", "legal"), 4: ("d", "poems"), 9: ("e", "code")}
    for tick in range(24):
        if tick == 3:
            engine.add_adapter("poems", 4)
        if tick == 8:
            engine.add_adapter("code", 8)
        if tick in arrivals:
            name, adapter = arrivals[tick]
            engine.submit(Request(name, adapter, 5 + tick, 6 + tick % 4))
        if engine.running:
            for request in engine.step():
                print(request.name, request.adapter, torch.stack(request.tokens).tolist())


if __name__ == "__main__":
    main()
