"""Text embedding service. Encoder graphs are recorded on demand and kept in a small LRU registry."""
from collections import OrderedDict
from types import SimpleNamespace

import torch
from torch import nn

PAD = 0


class Encoder(nn.Module):
    def __init__(self, vocab=200, width=32, heads=4):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, ids, mask, pooling):
        x = self.tokens(ids)
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        bias = torch.zeros_like(mask, dtype=x.dtype).masked_fill(~mask, -1e4)[:, None, None]
        att = (q @ k.transpose(-1, -2) / (w // self.heads) ** 0.5 + bias).softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, t, w))
        if pooling == "cls":
            pooled = x[:, 0]
        else:
            weights = mask.to(x.dtype)[..., None]
            pooled = (x * weights).sum(1) / weights.sum(1).clamp(min=1)
        return nn.functional.normalize(pooled, dim=-1)


class Registry:
    def __init__(self, encoder, device, limit=8):
        self.encoder, self.device, self.limit = encoder, device, limit
        self.entries: OrderedDict[tuple, SimpleNamespace] = OrderedDict()
        self.stream = torch.cuda.Stream(device)

    def _record(self, shape, pooling):
        slot = SimpleNamespace(
            ids=torch.full(shape, PAD, dtype=torch.long, device=self.device),
            mask=torch.ones(shape, dtype=torch.bool, device=self.device),
        )
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.encoder(slot.ids, slot.mask, pooling)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        slot.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(slot.graph, stream=self.stream):
            slot.out = self.encoder(slot.ids, slot.mask, pooling)
        return slot

    def lookup(self, shape, pooling):
        key = tuple(shape)
        if key in self.entries:
            self.entries.move_to_end(key)
            return self.entries[key]
        if len(self.entries) >= self.limit:
            self.entries.popitem(last=False)
        slot = self.entries[key] = self._record(key, pooling)
        return slot

    def encode(self, ids, pooling="mean"):
        slot = self.lookup(ids.shape, pooling)
        slot.ids.copy_(ids)
        slot.mask = ids.ne(PAD)
        slot.graph.replay()
        return slot.out


def batches(sentences, size, width, device):
    for start in range(0, len(sentences), size):
        group = sentences[start : start + size]
        rows = [s[:width] + [PAD] * (width - len(s)) for s in group]
        rows += [[PAD] * width] * (size - len(group))
        yield torch.tensor(rows, device=device)


class Service:
    def __init__(self, registry):
        self.registry = registry

    def embed(self, sentences, pooling, width):
        device = self.registry.device
        staged = list(batches(sentences, 4, width, device))
        vectors = [self.registry.encode(ids, pooling) for ids in staged]
        return torch.cat(vectors)[: len(sentences)]


def corpus(n, seed):
    gen = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 9, (n,), generator=gen).tolist()
    return [torch.randint(1, 200, (k,), generator=gen).tolist() for k in lengths]


@torch.no_grad()
def main(device="cuda"):
    torch.manual_seed(5)
    device = torch.device(device)
    service = Service(Registry(Encoder().to(device).eval(), device))
    for turn in range(4):
        docs = service.embed(corpus(11, turn), "mean", 8)
        query = service.embed(corpus(3, 100 + turn), "cls", 8)
        print(turn, (query @ docs.T).argmax(1).tolist())


if __name__ == "__main__":
    main()
