"""Low-rank fine-tuning of a frozen encoder; forward and backward are one CUDA graph."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class LowRankLinear(nn.Module):
    def __init__(self, base, rank=4, alpha=8.0):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.down.t()) @ self.up.t()


class Tagger(nn.Module):
    def __init__(self, vocab=80, width=32, tags=5, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width).requires_grad_(False)
        self.layers = nn.ModuleList(LowRankLinear(nn.Linear(width, width)) for _ in range(depth))
        self.head = LowRankLinear(nn.Linear(width, tags))

    def forward(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            h = h + F.gelu(layer(h))
        return self.head(h)


class LossScaler:
    """Dynamic scale: halved on overflow, doubled after `patience` good steps."""

    def __init__(self, start=256.0, patience=6):
        self.scale, self.patience, self.good = start, patience, 0

    def unscale(self, params):
        grads = [p.grad for p in params if p.grad is not None]
        if grads:
            torch._foreach_mul_(grads, 1.0 / self.scale)

    def update(self, overflow):
        self.good = 0 if overflow else self.good + 1
        if overflow:
            self.scale *= 0.5
        elif self.good >= self.patience:
            self.scale, self.good = self.scale * 2.0, 0


class TaggedCorpus:
    def __init__(self, sentences, length, device, batch, vocab=80, tags=5):
        gen = torch.Generator().manual_seed(9)
        self.ids = torch.randint(1, vocab, (sentences, length), generator=gen).to(device)
        self.tags = (self.ids * 7 % tags)
        ends = torch.randint(length // 2, length + 1, (sentences, 1), generator=gen).to(device)
        padding = torch.arange(length, device=device) >= ends
        self.ids.masked_fill_(padding, 0)
        self.tags.masked_fill_(padding, -100)
        self.batch = batch

    def __iter__(self):
        for begin in range(0, self.ids.shape[0], self.batch):
            rows = slice(begin, begin + self.batch)
            yield self.ids[rows], self.tags[rows]


class GraphedTrainer:
    def __init__(self, model, batch, length, device, lr=0.05):
        self.model, self.device = model, device
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(self.params, lr=lr, momentum=0.9)
        self.scaler = LossScaler()
        self.ids = torch.zeros(batch, length, dtype=torch.int64, device=device)
        self.tags = torch.full((batch, length), -100, device=device)
        self.stream = torch.cuda.Stream(device)
        self.capture()

    def forward_backward(self):
        logits = self.model(self.ids)
        loss = F.cross_entropy(logits.flatten(0, 1), self.tags.flatten(), ignore_index=-100, reduction="sum")
        (loss * self.scaler.scale).backward()
        return loss.detach()

    def capture(self):
        main = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self.optimizer.zero_grad(set_to_none=True)
                self.forward_backward()
        main.wait_stream(self.stream)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.loss = self.forward_backward()

    def step(self, ids, tags):
        rows = ids.shape[0]
        self.ids[:rows].copy_(ids)
        self.tags[:rows].copy_(tags)
        self.graph.replay()
        self.scaler.unscale(self.params)
        norm = nn.utils.clip_grad_norm_(self.params, 50.0)
        overflow = not math.isfinite(norm)
        if not overflow:
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.scaler.update(overflow)
        return self.loss


def main(epochs=3):
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    corpus = TaggedCorpus(sentences=44, length=12, device=device, batch=16)
    model = Tagger().to(device)
    trainer = GraphedTrainer(model, batch=16, length=12, device=device)
    for epoch in range(epochs):
        total = torch.zeros((), device=device)
        words = torch.zeros((), dtype=torch.int64, device=device)
        for ids, tags in corpus:
            total += trainer.step(ids, tags)
            words += (tags >= 0).sum()
        print(f"epoch {epoch}: loss per word {(total / words).item():.4f}, scale {trainer.scaler.scale:g}")


if __name__ == "__main__":
    main()
