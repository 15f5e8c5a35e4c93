"""The engine: one decode graph for all slots, and an eager prefill that fills the cache of one slot."""

from __future__ import annotations

import torch
import torch.nn as nn
from slots import SlotTable, Turn

VOCAB, WIDTH, LENGTH = 96, 32, 64


class ChatModel(nn.Module):
    def __init__(self, slots: int):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, VOCAB)
        self.register_buffer("keys", torch.zeros(slots, LENGTH, WIDTH))
        self.register_buffer("values", torch.zeros(slots, LENGTH, WIDTH))
        self.register_buffer("places", torch.arange(LENGTH))

    def prefill(self, slot: int, ids: torch.Tensor) -> None:
        _, k, v = self.qkv(self.embed(ids)).chunk(3, -1)
        self.keys[slot, : ids.shape[0]].copy_(k)
        self.values[slot, : ids.shape[0]].copy_(v)

    def forward(self, tokens, lengths, active):
        q, k, v = self.qkv(self.embed(tokens)).chunk(3, -1)
        place = lengths.view(-1, 1, 1).expand(-1, 1, WIDTH)
        self.keys.scatter_(1, place, k.unsqueeze(1))
        self.values.scatter_(1, place, v.unsqueeze(1))
        score = torch.einsum("sd,sld->sl", q, self.keys) / WIDTH**0.5
        score = score.masked_fill(self.places > lengths.unsqueeze(1), -1e9)
        mixed = torch.einsum("sl,sld->sd", score.softmax(-1), self.values)
        lengths.add_(active)
        return self.out(mixed).argmax(-1)


class Engine:
    def __init__(self, slots: int):
        self.device = torch.device("cuda")
        self.model = ChatModel(slots).to(self.device).eval()
        self.table = SlotTable(slots, self.device)
        self.tokens = torch.zeros(slots, dtype=torch.long, device=self.device)
        self.graph = None

    def capture(self) -> None:
        table = self.table
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(self.tokens, table.lengths, table.active)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.sampled = self.model(self.tokens, table.lengths, table.active)

    def admit(self, turn: Turn) -> None:
        slot = self.table.admit(turn)
        ids = torch.tensor(turn.prompt, device=self.device)
        self.model.prefill(slot, ids[:-1])
        self.tokens[slot].copy_(ids[-1])

    def step(self) -> None:
        self.graph.replay()
        self.tokens.copy_(self.sampled)
        for slot, turn in self.table.turns.items():
            turn.answer.append(self.sampled[slot])
