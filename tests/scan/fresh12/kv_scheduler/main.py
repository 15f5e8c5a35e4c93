"""A small continuous-batching loop over graphs kept by batch size."""
import torch
import torch.nn as nn
from pool import Slots

DIM, VOCAB, LENGTH = 32, 100, 64


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, token, slot, cache):
        q, k, v = self.qkv(self.embed(token)).chunk(3, -1)
        at = cache.lengths[slot]
        cache.keys[slot, at] = k
        cache.values[slot, at] = v
        keys, values = cache.keys[slot], cache.values[slot]
        seen = torch.arange(keys.shape[1], device=token.device) <= at.unsqueeze(1)
        weight = (keys @ q.unsqueeze(-1)).squeeze(-1).masked_fill(~seen, -1e9).softmax(-1)
        cache.lengths.index_add_(0, slot, torch.ones_like(slot))
        return self.head((weight.unsqueeze(1) @ values).squeeze(1)).argmax(-1)


class Engine:
    def __init__(self):
        self.model = Attention().cuda().requires_grad_(False)
        self.cache = Slots.create(8, LENGTH, DIM)
        self.graphs = {}

    def capture(self, batch):
        token = torch.zeros(batch, dtype=torch.long, device="cuda")
        slot = torch.arange(batch, device="cuda")
        self.model(token, slot, self.cache)
        self.cache.lengths.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.model(token, slot, self.cache)
        self.graphs[batch] = (graph, token, slot, out)

    def decode(self, tokens, slots):
        graph, token, slot, out = self.graphs[len(tokens)]
        token.copy_(tokens)
        graph.replay()
        return out.clone()


def main():
    torch.manual_seed(1)
    engine = Engine()
    for batch in (1, 2, 4):
        engine.capture(batch)
    pending = [(torch.randint(VOCAB, (b,), device="cuda"), torch.arange(b, device="cuda") + 2) for b in (1, 2, 4)]
    for tokens, slots in pending:
        for step in range(12):
            tokens = engine.decode(tokens, slots)
            if step == 8:
                engine.cache.grow(32)


if __name__ == "__main__":
    main()
