"""Greedy decoding over a paged cache; the slots of a request change per call."""
import math

import torch

PAGE = 4


class Cache:
    def __init__(self, slots, pages_per_slot, dim, device):
        self.pages_per_slot = pages_per_slot
        total = slots * pages_per_slot
        self.rows = torch.arange(total, device=device).view(slots, pages_per_slot)
        self.pages = torch.zeros(total, PAGE, dim, device=device)


class PagedDecoder:
    def __init__(self, device, batch=4, vocab=64, dim=32, slots=16, pages_per_slot=8):
        gen = torch.Generator(device="cpu").manual_seed(3)
        self.device = device
        self.batch = batch
        self.embed = torch.randn(vocab, dim, generator=gen).to(device)
        self.proj = torch.randn(dim, vocab, generator=gen).to(device)
        self.scale = 1.0 / math.sqrt(dim)
        self.cache = Cache(slots, pages_per_slot, dim, device)
        self.limit = pages_per_slot * PAGE
        self.arange = torch.arange(self.limit, device=device)
        self.tokens = torch.ones(batch, dtype=torch.long, device=device)
        self.positions = torch.zeros(batch, dtype=torch.long, device=device)
        self.block_tables = torch.zeros(batch, pages_per_slot, dtype=torch.long, device=device)
        self.history = torch.zeros(self.limit, batch, dtype=torch.long, device=device)
        self.graph = None

    def _decode(self):
        hidden = self.embed[self.tokens]
        page = self.block_tables.gather(1, (self.positions // PAGE).unsqueeze(1)).squeeze(1)
        where = page * PAGE + self.positions % PAGE
        flat = self.cache.pages.view(-1, hidden.shape[-1])
        flat.index_copy_(0, where, hidden)
        context = self.cache.pages[self.block_tables].flatten(1, 2)
        scores = torch.einsum("bd,btd->bt", hidden, context) * self.scale
        visible = self.arange.unsqueeze(0) <= self.positions.unsqueeze(1)
        weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)
        logits = torch.einsum("bt,btd->bd", weights, context) @ self.proj
        self.tokens.copy_(logits.argmax(-1))
        self.positions.add_(1)

    def capture(self):
        for row in range(self.batch):
            self.block_tables[row].copy_(self.cache.rows[row])
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(2):
                self._decode()
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._decode()
        self.cache.pages.zero_()

    def generate(self, slots, prompt, steps, out):
        self.tokens.copy_(prompt)
        self.positions.zero_()
        for row, slot in enumerate(slots):
            self.block_tables[row].copy_(self.cache.rows[slot])
        for step in range(steps):
            self.graph.replay()
            self.history[step].copy_(self.tokens)
        out.copy_(self.history[:steps])


def main():
    device = torch.device("cuda")
    decoder = PagedDecoder(device)
    decoder.capture()
    prompts = torch.arange(1, 13, device=device).view(3, 4)
    outs = torch.zeros(3, 12, 4, dtype=torch.long, device=device)
    for request in range(3):
        slots = list(range(4 * request, 4 * request + 4))
        decoder.generate(slots, prompts[request], 12, outs[request])
    print(outs[-1].tolist())


if __name__ == "__main__":
    main()
