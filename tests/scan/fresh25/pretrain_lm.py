"""Character-level pre-training of a small recurrent mixer; forward, backward and update are one graph."""
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


class Mixer(nn.Module):
    def __init__(self, vocab: int, width: int, depth: int, block: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.time = nn.ParameterList(nn.Parameter(torch.randn(block, block) * 0.05) for _ in range(depth))
        self.channel = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, vocab)
        self.register_buffer("causal", torch.ones(block, block).tril(), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        h = self.embed(ids)
        for time, channel in zip(self.time, self.channel):
            h = h + torch.einsum("st,btc->bsc", time * self.causal, h)
            h = h + F.gelu(channel(h))
        return self.head(h)


class Corpus:
    """Documents of uneven length, kept on the device, given out in row blocks."""

    def __init__(self, vocab: int, block: int, device: torch.device):
        self.block = block
        self.text = torch.randint(0, vocab, (40_000,), device=device)
        self.text[1::2] = (self.text[::2] + 1) % vocab

    def epoch(self, rows: int, documents: int):
        start = 0
        for d in range(documents):
            count = rows * 3 + d % rows
            windows = self.text[start : start + count * (self.block + 1)].view(count, -1)
            start += windows.numel()
            yield from windows.split(rows)


class Pretrainer:
    def __init__(self, model: Mixer, rows: int, block: int, steps: int, device: torch.device):
        self.model, self.steps = model, steps
        self.tokens = torch.zeros(rows, block + 1, dtype=torch.int64, device=device)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, capturable=True)
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()
        self.curve: list[torch.Tensor] = []
        self.skipped = 0
        self.done = 0

    def compute(self) -> torch.Tensor:
        logits = self.model(self.tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), self.tokens[:, 1:].flatten())

    def prepare(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.optimizer.zero_grad(set_to_none=True)
                self.compute().backward()
                self.optimizer.step()
        torch.cuda.current_stream().wait_stream(self.stream)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.loss = self.compute()
            self.loss.backward()
            self.optimizer.step()

    def rate(self) -> float:
        progress = self.done / self.steps
        return 3e-3 * 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))

    def train_batch(self, windows: torch.Tensor) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        count = windows.shape[0]
        self.tokens[:count].copy_(windows)
        self.graph.replay()
        self.done += 1
        self.curve.append(self.loss)
        if self.loss.item() > 6.0:
            self.skipped += 1

    def summary(self) -> str:
        losses = torch.stack(self.curve)
        return f"first {losses[0]:.4f} last {losses[-1]:.4f} mean {losses.mean():.4f}, spikes {self.skipped}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=6)
    parser.add_argument("--rows", type=int, default=8)
    options = parser.parse_args()
    device = torch.device("cuda")
    torch.manual_seed(17)
    block = 16
    model = Mixer(vocab=48, width=32, depth=2, block=block).to(device)
    trainer = Pretrainer(model, options.rows, block, steps=options.documents * 4, device=device)
    trainer.prepare()
    corpus = Corpus(48, block, device)
    for windows in corpus.epoch(options.rows, options.documents):
        trainer.train_batch(windows)
    print(trainer.summary())
    print("weights", sum(p.square().sum() for p in model.parameters()).item())


if __name__ == "__main__":
    main()
