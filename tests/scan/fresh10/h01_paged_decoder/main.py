import math

import torch
import torch.nn.functional as F

from blocks import PAGE, PageTable


class PagedDecoder:
    """Greedy decoder over a paged KV cache, one graph for a fixed batch."""

    def __init__(self, device, batch=4, vocab=64, dim=32, slots=16, pages_per_slot=8, eos=0):
        gen = torch.Generator(device="cpu").manual_seed(3)
        self.device = device
        self.batch = batch
        self.eos = eos
        self.embed = torch.randn(vocab, dim, generator=gen).to(device)
        self.proj = torch.randn(dim, vocab, generator=gen).to(device)
        self.scale = 1.0 / math.sqrt(dim)
        self.table = PageTable(slots, pages_per_slot, device)
        self.kv = torch.zeros(slots * pages_per_slot, PAGE, dim, device=device)
        self.arange = torch.arange(pages_per_slot * PAGE, device=device)

        self.tokens = torch.ones(batch, dtype=torch.long, device=device)
        self.positions = torch.zeros(batch, dtype=torch.long, device=device)
        self.finished = torch.zeros(batch, dtype=torch.bool, device=device)
        self.history = torch.zeros(batch, pages_per_slot * PAGE, dtype=torch.long, device=device)
        self.block_tables = self.table.rows_for(list(range(batch)))
        self.graph = None

    def _decode(self):
        hidden = self.embed[self.tokens]
        page = self.block_tables.gather(1, (self.positions // PAGE).unsqueeze(1)).squeeze(1)
        where = page * PAGE + self.positions % PAGE
        self.kv.view(-1, hidden.shape[-1]).index_copy_(0, where, hidden)
        context = self.kv[self.block_tables].flatten(1, 2)
        scores = torch.einsum("bd,btd->bt", hidden, context) * self.scale
        visible = self.arange.unsqueeze(0) <= self.positions.unsqueeze(1)
        weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)
        mixed = torch.einsum("bt,btd->bd", weights, context)
        logits = F.layer_norm(mixed + hidden, hidden.shape[-1:]) @ self.proj
        self.tokens.copy_(logits.argmax(-1))
        self.positions.add_(1)
        self.finished.logical_or_(self.tokens == self.eos)

    def capture(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(2):
                self._decode()
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._decode()
        self.kv.zero_()

    def generate(self, slots, prompt, max_new):
        self.tokens.copy_(prompt)
        self.positions.zero_()
        self.finished.zero_()
        self.block_tables = self.table.rows_for(slots)
        produced = 0
        for step in range(max_new):
            self.graph.replay()
            self.history[:, step].copy_(self.tokens)
            produced += 1
            if self.finished.all():
                break
        return self.history[:, :produced]


def main():
    device = torch.device("cuda")
    decoder = PagedDecoder(device)
    decoder.capture()
    prompts = torch.arange(1, 13, device=device).view(3, 4)
    answers = []
    for request in range(3):
        slots = decoder.table.acquire(decoder.batch)
        answers.append(decoder.generate(slots, prompts[request], max_new=12).clone())
    print([a.shape for a in answers])


if __name__ == "__main__":
    main()
