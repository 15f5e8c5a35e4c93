"""Whole-step capture for a small language model: forward, backward and a fused AdamW written by hand."""
import argparse
import math

import torch
from torch import nn
import torch.nn.functional as F


class GPTish(nn.Module):
    def __init__(self, vocab=64, dim=24):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.mix = nn.Conv1d(dim, dim, 3, padding=2)
        self.ff = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        h = self.tok(ids)
        h = h + self.mix(h.transpose(1, 2))[..., : ids.shape[1]].transpose(1, 2)
        return self.head(h + F.gelu(self.ff(h)))


class FusedAdamW:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.95), wd=0.01):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.betas, self.wd = lr, betas, wd
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]
        self.t = 0

    @torch.no_grad()
    def step(self):
        b1, b2 = self.betas
        self.t += 1
        correction = math.sqrt(1 - b2**self.t) / (1 - b1**self.t)
        grads = [p.grad for p in self.params]
        torch._foreach_mul_(self.params, 1 - self.lr * self.wd)
        torch._foreach_lerp_(self.m, grads, 1 - b1)
        torch._foreach_mul_(self.v, b2)
        torch._foreach_addcmul_(self.v, grads, grads, 1 - b2)
        denom = torch._foreach_sqrt(self.v)
        torch._foreach_add_(denom, 1e-8)
        torch._foreach_addcdiv_(self.params, self.m, denom, -self.lr * correction)


class StepGraph:
    def __init__(self, model, opt, batch, length, device):
        self.model, self.opt = model, opt
        self.ids = torch.zeros(batch, length + 1, dtype=torch.long, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._work()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=side):
            self.loss, self.norm = self._work()

    def _work(self):
        for p in self.model.parameters():
            if p.grad is not None:
                p.grad.zero_()
        logits = self.model(self.ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), self.ids[:, 1:].flatten())
        loss.backward()
        norm = torch._foreach_norm([p.grad for p in self.model.parameters()])
        self.opt.step()
        return loss.detach(), torch.stack(norm).norm()

    def __call__(self, ids):
        self.ids.copy_(ids, non_blocking=True)
        self.graph.replay()
        return self.loss, self.norm


def cosine(step, total, peak):
    return peak * 0.5 * (1 + math.cos(math.pi * step / total))


def main(device="cuda"):
    cli = argparse.ArgumentParser()
    cli.add_argument("--steps", type=int, default=14)
    steps = cli.parse_args().steps
    torch.manual_seed(0)
    model = GPTish().to(device)
    opt = FusedAdamW(model.parameters())
    train = StepGraph(model, opt, 4, 16, device)
    data = torch.randint(0, 64, (steps, 4, 17)).pin_memory()
    curve, worst = [], 0.0
    for step in range(steps):
        opt.lr = cosine(step, steps, 1e-3)
        loss, norm = train(data[step])
        curve.append(loss)
        if norm > 50:
            worst = step
    print([round(v.item(), 3) for v in curve[-4:]], worst)


if __name__ == "__main__":
    main()
