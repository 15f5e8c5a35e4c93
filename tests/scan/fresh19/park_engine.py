"""An engine that can be parked while the trainer owns the GPU, and unparked later."""
import contextlib
import gc

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, x, cache_k, cache_v, pos):
        cache_k.index_copy_(1, pos, self.k(x)[:, None])
        cache_v.index_copy_(1, pos, self.v(x)[:, None])
        w = torch.einsum("bd,btd->bt", self.q(x), cache_k)
        mask = torch.arange(cache_k.shape[1], device=x.device) <= pos
        w = w.masked_fill(~mask, float("-inf")).softmax(-1)
        return x + self.o(torch.einsum("bt,btd->bd", w, cache_v))


class Model(nn.Module):
    def __init__(self, vocab, d, n):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(n))
        self.norm = nn.LayerNorm(d)

    def forward(self, ids, caches, pos):
        x = self.emb(ids)
        for block, (k, v) in zip(self.blocks, caches):
            x = block(x, k, v, pos)
        return self.norm(x) @ self.emb.weight.T


class Engine:
    def __init__(self, model, batch, length, device):
        self.model = model.to(device).eval()
        self.batch, self.length, self.device = batch, length, device
        self.ids = torch.zeros(batch, dtype=torch.long, device=device)
        self.pos = torch.zeros(1, dtype=torch.long, device=device)
        self.caches = self._fresh_caches()
        self.graph = None

    def _fresh_caches(self):
        d = self.model.emb.embedding_dim
        return [
            tuple(torch.zeros(self.batch, self.length, d, device=self.device) for _ in range(2))
            for _ in self.model.blocks
        ]

    @torch.no_grad()
    def start(self):
        s = torch.cuda.Stream(self.device)
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            self.model(self.ids, self.caches, self.pos)
        torch.cuda.current_stream().wait_stream(s)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=s):
            self.logits = self.model(self.ids, self.caches, self.pos)
            self.ids.copy_(self.logits.argmax(-1))
            self.pos.add_(1)

    def park(self):
        self.model.to("cpu")
        self.caches = None
        gc.collect()

    def unpark(self):
        self.model.to(self.device)
        self.caches = self._fresh_caches()

    @contextlib.contextmanager
    def parked(self):
        self.park()
        try:
            yield self.model
        finally:
            self.unpark()

    def generate(self, prompt, n):
        self.ids.copy_(prompt)
        self.pos.zero_()
        out = torch.empty(n, self.batch, dtype=torch.long, device=self.device)
        for i in range(n):
            self.graph.replay()
            out[i].copy_(self.ids)
            torch.cuda.synchronize()
        return out


def main():
    device = torch.device("cuda")
    torch.manual_seed(21)
    engine = Engine(Model(30, 16, 2), batch=3, length=10, device=device)
    engine.start()
    prompt = torch.tensor([1, 2, 3], device=device)
    first = engine.generate(prompt, 6)
    for _ in range(2):
        with engine.parked() as model, torch.no_grad():
            for p in model.parameters():
                p.add_(0.05 * torch.randn_like(p))
        again = engine.generate(prompt, 6)
    print(first.T.tolist(), again.T.tolist(), sep="\n")


if __name__ == "__main__":
    main()
