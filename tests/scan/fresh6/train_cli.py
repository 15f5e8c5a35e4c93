"""Command-line trainer: replayed forward and backward, eager optimiser."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn


class WordDrop(nn.Module):
    """Multiplicative noise whose strength is annealed over the run."""

    def __init__(self, strength):
        super().__init__()
        self.strength = strength

    def forward(self, x):
        if not self.training:
            return x
        return x * (1.0 + self.strength * torch.randn_like(x))


class Tagger(nn.Module):
    def __init__(self, vocab, width, tags):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.drop = WordDrop(0.5)
        self.conv = nn.Conv1d(width, width, 5, padding=2)
        self.out = nn.Linear(width, tags)

    def forward(self, ids):
        h = self.drop(self.embed(ids)).transpose(1, 2)
        return self.out(F.relu(self.conv(h)).transpose(1, 2))


class GraphedLoss:
    def __init__(self, model, shape, device):
        self.model = model
        self.ids = torch.zeros(shape, dtype=torch.int64, device=device)
        self.tags = torch.zeros(shape, dtype=torch.int64, device=device)
        self.loss = None
        self.graph = None

    def _compute(self):
        logits = self.model(self.ids)
        loss = F.cross_entropy(logits.flatten(0, 1), self.tags.flatten())
        loss.backward()
        self.loss = loss.detach()

    def try_capture(self):
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                self.model.zero_grad()
                self._compute()
        torch.cuda.current_stream().wait_stream(warm)
        self.model.zero_grad()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._compute()
            self.graph = graph
        except RuntimeError:
            self.graph = None

    def __call__(self, ids, tags):
        self.ids.copy_(ids)
        self.tags.copy_(tags)
        if self.graph is None:
            self._compute()
        else:
            self.graph.replay()
        return self.loss


def train(model, graphed, opt, epochs, per_epoch, vocab, n_tags):
    device = graphed.ids.device
    for epoch in range(epochs):
        model.drop.strength = 0.5 * (1.0 - epoch / epochs)
        total = 0.0
        for _ in range(per_epoch):
            ids = torch.randint(0, vocab, graphed.ids.shape, device=device)
            tags = ids % n_tags
            opt.zero_grad()
            loss = graphed(ids, tags)
            opt.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / per_epoch:.4f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--vocab", type=int, default=2000)
    ap.add_argument("--tags", type=int, default=12)
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--per-epoch", type=int, default=200)
    args = ap.parse_args()
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    model = Tagger(args.vocab, 96, args.tags).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    graphed = GraphedLoss(model, (16, 40), device)
    graphed.try_capture()
    train(model, graphed, opt, args.epochs, args.per_epoch, args.vocab, args.tags)


if __name__ == "__main__":
    main()
