"""Instruction tuning of a small decoder: one captured micro-batch, gradients accumulated over several replays."""
import argparse
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class TuneConfig:
    vocab: int = 64
    width: int = 32
    context: int = 12
    micro: int = 4
    accumulate: int = 3
    examples: int = 34
    lr: float = 3e-3
    epochs: int = 2


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        h = self.norm(x)
        x = x + self.mix(h.cumsum(1) / h.shape[1])
        return x + self.down(F.silu(self.up(x)))


class TinyDecoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.width)
        self.blocks = nn.Sequential(Block(cfg.width), Block(cfg.width))
        self.head = nn.Linear(cfg.width, cfg.vocab)

    def forward(self, ids):
        return self.head(self.blocks(self.embed(ids)))


class InstructionSet:
    """Prompt/answer pairs that live on the device; prompts carry the ignore label."""

    def __init__(self, cfg, device):
        g = torch.Generator().manual_seed(3)
        ids = torch.randint(0, cfg.vocab, (cfg.examples, cfg.context), generator=g)
        labels = ids.roll(-1, dims=1)
        labels[:, : cfg.context // 3] = -100
        self.ids, self.labels = ids.to(device), labels.to(device)

    def micro_batches(self, size):
        for start in range(0, self.ids.shape[0], size):
            yield self.ids[start:start + size], self.labels[start:start + size]


class AccumulatingTuner:
    def __init__(self, cfg, device):
        self.cfg = cfg
        self.model = TinyDecoder(cfg).to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=0.9)
        self.ids = torch.zeros(cfg.micro, cfg.context, dtype=torch.long, device=device)
        self.labels = torch.zeros(cfg.micro, cfg.context, dtype=torch.long, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self._record()

    def _micro_step(self):
        logits = self.model(self.ids)
        loss = F.cross_entropy(logits.flatten(0, 1), self.labels.flatten(), ignore_index=-100)
        (loss / self.cfg.accumulate).backward()
        return loss.detach()

    def _record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._micro_step()
        torch.cuda.current_stream().wait_stream(side)
        self.opt.zero_grad(set_to_none=False)
        with torch.cuda.graph(self.graph):
            self.loss = self._micro_step()

    def accumulate(self, ids, labels):
        count = ids.shape[0]
        self.ids[:count].copy_(ids)
        self.labels[:count].copy_(labels)
        self.graph.replay()
        return self.loss

    def apply(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.opt.zero_grad()

    def epoch(self, data):
        pending, history = [], []
        for ids, labels in data.micro_batches(self.cfg.micro):
            pending.append(self.accumulate(ids, labels))
            if len(pending) == self.cfg.accumulate:
                self.apply()
                history.append(torch.stack(pending).mean())
                pending.clear()
        return torch.stack(history)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=TuneConfig.epochs)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    cfg = TuneConfig(epochs=args.epochs)
    data = InstructionSet(cfg, device)
    tuner = AccumulatingTuner(cfg, device)
    for epoch in range(cfg.epochs):
        curve = tuner.epoch(data)
        print(f"epoch {epoch}: {curve.mean().item():.4f}")


if __name__ == "__main__":
    main()
