"""Sampling parameters are written in turn into a pinned ring; the graph uploads the whole ring and picks by a pinned index."""
import torch
import torch.nn as nn

import graphsafe

RING, SLOTS, VOCABULARY = 3, 6, 48


class Sampler:
    def __init__(self, device):
        pin = device.type == "cuda"
        self.head = nn.Linear(32, VOCABULARY).to(device).requires_grad_(False)
        self.host = torch.ones(RING, SLOTS, 3, pin_memory=pin)
        self.host_turn = torch.zeros(1, dtype=torch.long, pin_memory=pin)
        self.ring, self.turn = torch.ones(RING, SLOTS, 3, device=device), torch.zeros(1, dtype=torch.long, device=device)
        self.hidden = torch.randn(SLOTS, 32, device=device)
        self.turns = 0

    def schedule(self, args, kwargs, k):
        if self.hidden.is_cuda:
            torch.cuda.synchronize(self.hidden.device)
        self.turns = (self.turns + 1) % RING
        row = self.host[self.turns].numpy()
        row[:, 0] = 0.5 + torch.rand(SLOTS).numpy()  # temperature
        row[:, 1] = 0.6 + 0.4 * torch.rand(SLOTS).numpy()  # top-p
        row[:, 2] = torch.randint(1, VOCABULARY, (SLOTS,)).numpy()  # top-k
        self.host_turn.numpy()[0] = self.turns
        self.hidden.copy_(torch.randn(SLOTS, 32))

    def step(self):
        self.ring.copy_(self.host, non_blocking=True)
        self.turn.copy_(self.host_turn, non_blocking=True)
        temperature, top_p, top_k = self.ring.index_select(0, self.turn)[0].unbind(-1)
        logits = self.head(self.hidden) / temperature[:, None]
        ordered, order = logits.sort(-1, descending=True)
        mass = ordered.softmax(-1)
        before = mass.cumsum(-1) - mass
        out = (before > top_p[:, None]) | (torch.arange(VOCABULARY, device=mass.device) >= top_k[:, None])
        kept = ordered.masked_fill(out, float("-inf")).softmax(-1)
        pick = torch.multinomial(kept, 1)
        return order.gather(-1, pick), kept


def build(device):
    sampler = Sampler(device)
    return graphsafe.Step(sampler.step, (), {}, refresh=sampler.schedule)
