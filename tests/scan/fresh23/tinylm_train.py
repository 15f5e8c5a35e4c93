"""Train a small causal language model; forward, backward and AdamW run as one CUDA graph."""
import argparse
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class TrainConfig:
    vocab: int = 128
    width: int = 32
    heads: int = 4
    seq: int = 16
    batch: int = 8
    peak_lr: float = 3e-3
    warmup: int = 4
    total: int = 24
    rollback_at: int = 12


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).unbind(2)
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class TinyLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.width)
        self.blocks = nn.ModuleList([Block(cfg.width, cfg.heads) for _ in range(2)])
        self.out = nn.Linear(cfg.width, cfg.vocab)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def cosine(step, cfg):
    if step < cfg.warmup:
        return cfg.peak_lr * (step + 1) / cfg.warmup
    frac = (step - cfg.warmup) / max(1, cfg.total - cfg.warmup)
    return cfg.peak_lr * 0.5 * (1.0 + math.cos(math.pi * frac))


class Trainer:
    def __init__(self, cfg, device):
        self.cfg = cfg
        self.device = device
        self.model = TinyLM(cfg).to(device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cosine(0, cfg), capturable=True)
        self.tokens = torch.zeros(cfg.batch, cfg.seq + 1, dtype=torch.long, device=device)
        self.graph = None
        self.loss = None
        self.best = None

    def _train_step(self):
        logits = self.model(self.tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), self.tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.opt.zero_grad(set_to_none=False)
        return loss.detach()

    def capture(self):
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._train_step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.loss = self._train_step()

    def keep_best(self):
        self.best = {k: v.clone() for k, v in self.model.state_dict().items()}

    def rollback(self):
        self.model.load_state_dict(self.best, assign=True)

    def fit(self, batches):
        for step, batch in enumerate(batches):
            for group in self.opt.param_groups:
                group["lr"] = cosine(step, self.cfg)
            rows = batch.size(0)
            self.tokens[:rows].copy_(batch)
            self.graph.replay()
            if step == self.cfg.rollback_at // 2:
                self.keep_best()
            if step == self.cfg.rollback_at:
                self.rollback()
            print(f"step {step:4d} rows {rows} loss {self.loss.item():.4f}")


def corpus(cfg, device):
    gen = torch.Generator(device=device).manual_seed(11)
    for step in range(cfg.total):
        rows = cfg.batch if step % 6 != 5 else cfg.batch - 3
        yield torch.randint(0, cfg.vocab, (rows, cfg.seq + 1), generator=gen, device=device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    cfg = TrainConfig()
    trainer = Trainer(cfg, torch.device(args.device))
    trainer.capture()
    trainer.fit(corpus(cfg, trainer.device))


if __name__ == "__main__":
    main()
