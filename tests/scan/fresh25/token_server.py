"""Continuous batching of token requests: one decode graph a batch size and sampling mode, weights renewed in place."""
from collections import deque
from dataclasses import dataclass, field

import torch
from torch import nn

SLOTS, CONTEXT, VOCAB = 6, 40, 64


class Decoder(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(VOCAB, width)
        self.place = nn.Embedding(CONTEXT, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, token, position, slot, keys, values):
        h = self.embed(token) + self.place(position)
        q, k, v = self.qkv(h).view(token.shape[0], 3, self.heads, -1).unbind(1)
        keys.index_put_((slot, position), k)
        values.index_put_((slot, position), v)
        reach = torch.arange(CONTEXT, device=token.device) <= position.unsqueeze(-1)
        scores = torch.einsum("bhd,bthd->bht", q, keys[slot]) / q.shape[-1] ** 0.5
        mixed = torch.einsum("bht,bthd->bhd", scores.masked_fill(~reach.unsqueeze(1), -1e9).softmax(-1), values[slot])
        return self.head(h + self.out(mixed.flatten(1)))


@dataclass
class Request:
    first: int
    budget: int
    temperature: float
    slot: int = -1
    made: int = 0
    text: list = field(default_factory=list)


class DecodeGraphs:
    """Row i of a batch serves slot rows[i]; rows beyond the batch point to the spare slot."""

    def __init__(self, model: Decoder, device: torch.device):
        self.model = model
        shape = (SLOTS + 1, CONTEXT, model.heads, model.embed.embedding_dim // model.heads)
        self.keys, self.values = torch.zeros(shape, device=device), torch.zeros(shape, device=device)
        self.last = torch.zeros(SLOTS + 1, dtype=torch.int64, device=device)
        self.written = torch.zeros(SLOTS + 1, CONTEXT, dtype=torch.int64, device=device)
        self.plan = torch.zeros(3, SLOTS, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graphs = {(n, greedy): self.record(n, greedy) for n in (SLOTS, 4, 2) for greedy in (True, False)}

    def decode(self, rows: int, greedy: bool) -> None:
        slot, position = self.plan[0, :rows].long(), self.plan[1, :rows].long()
        logits = self.model(self.last[slot], position, slot, self.keys, self.values)
        if not greedy:
            noise = torch.rand_like(logits).clamp_(1e-6, 1 - 1e-6)
            logits = logits / self.plan[2, :rows].unsqueeze(-1) - torch.log(-torch.log(noise))
        token = logits.argmax(-1)
        self.last.index_put_((slot,), token)
        self.written.index_put_((slot, position), token)

    @torch.no_grad()
    def record(self, rows: int, greedy: bool) -> torch.cuda.CUDAGraph:
        self.plan[0].fill_(SLOTS)
        self.plan[2].fill_(1.0)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self.decode(rows, greedy)
        torch.cuda.current_stream().wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.decode(rows, greedy)
        return graph


class Server:
    def __init__(self, model: Decoder, device: torch.device):
        self.model, self.device = model, device
        self.graphs = DecodeGraphs(model, device)
        self.free, self.waiting, self.running = list(range(SLOTS)), deque(), []
        self.pinned = [(torch.zeros(3, SLOTS, pin_memory=True), torch.cuda.Event()) for _ in range(3)]
        self.starts = torch.zeros(VOCAB, dtype=torch.int64, device=device).copy_(torch.arange(VOCAB))
        self.ticks = 0

    @torch.no_grad()
    def load(self, state: dict) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(state[name])

    def admit(self) -> None:
        while self.free and self.waiting:
            request = self.waiting.popleft()
            request.slot = self.free.pop()
            self.graphs.last[request.slot : request.slot + 1].copy_(self.starts[request.first : request.first + 1])
            self.running.append(request)

    def tick(self) -> None:
        self.admit()
        host, sent = self.pinned[self.ticks % len(self.pinned)]
        sent.synchronize()
        host[0].fill_(SLOTS)
        host[1].zero_()
        host[2].fill_(1.0)
        for row, request in enumerate(self.running):
            host[0, row], host[1, row], host[2, row] = request.slot, request.made, max(request.temperature, 1e-3)
        self.graphs.plan.copy_(host, non_blocking=True)
        sent.record()
        rows = min(n for n in (2, 4, SLOTS) if n >= len(self.running))
        self.graphs.graphs[rows, all(r.temperature == 0 for r in self.running)].replay()
        self.ticks += 1
        for request in self.running:
            request.made += 1
            if request.made == request.budget:
                request.text = self.graphs.written[request.slot, : request.made].tolist()
                self.free.append(request.slot)
        self.running = [r for r in self.running if r.made < r.budget]


def main() -> None:
    torch.manual_seed(19)
    device = torch.device("cuda")
    server = Server(Decoder().to(device).eval(), device)
    renewed = {k: v.to(device) for k, v in Decoder().state_dict().items()}
    everything = [Request(5 + i, 4 + (7 * i) % 19, 0.0 if i < 10 else 0.8) for i in range(18)]
    server.waiting.extend(everything)
    while server.waiting or server.running:
        server.tick()
        if server.ticks == 25:
            server.load(renewed)
    for request in everything[::3]:
        print(request.first, request.text)


if __name__ == "__main__":
    main()
