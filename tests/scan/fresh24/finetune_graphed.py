"""Fine-tuning of a sequence tagger: graphed trunk, eager head, capturable AdamW, EMA weights."""
import argparse
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn


class Trunk(nn.Module):
    def __init__(self, vocab, dim, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.ModuleList(nn.Conv1d(dim, dim, 3, padding=1) for _ in range(depth))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))

    def forward(self, ids):
        x = self.embed(ids)
        for conv, norm in zip(self.mix, self.norm):
            x = x + F.gelu(conv(norm(x).transpose(1, 2))).transpose(1, 2)
        return x


class TagHead(nn.Module):
    def __init__(self, dim, tags):
        super().__init__()
        self.score = nn.Linear(dim, tags)

    def forward(self, hidden, tags, weight):
        loss = F.cross_entropy(self.score(hidden).flatten(0, 1), tags.flatten(), reduction="none")
        return (loss * weight.flatten()).sum() / weight.sum().clamp_min(1)


class DeviceCorpus:
    """The whole corpus is on the device, batches are gathered into tensors of one shape."""

    def __init__(self, rows, length, vocab, tags, device):
        self.ids = torch.randint(1, vocab, (rows, length), device=device)
        self.tags = (self.ids * 7 + self.ids.roll(1, 1)) % tags
        lengths = torch.randint(length // 2, length + 1, (rows, 1), device=device)
        self.weight = (torch.arange(length, device=device) < lengths).float()
        self.rows = rows
        self.device = device

    def epoch(self, batch):
        order = torch.randperm(self.rows, device=self.device)
        for rows in order[: self.rows // batch * batch].split(batch):
            yield self.ids.index_select(0, rows), self.tags.index_select(0, rows), self.weight.index_select(0, rows)


class Ema:
    def __init__(self, modules, decay):
        self.live = [p for m in modules for p in m.parameters()]
        self.shadow = [p.detach().clone() for p in self.live]
        self.decay = decay

    @torch.no_grad()
    def update(self):
        torch._foreach_lerp_(self.shadow, self.live, 1 - self.decay)

    @torch.no_grad()
    def write_into(self, modules):
        for p, s in zip((p for m in modules for p in m.parameters()), self.shadow):
            p.copy_(s)


class Trainer:
    def __init__(self, device, batch=8, length=16, vocab=60, tags=5, dim=24):
        torch.manual_seed(0)
        self.device, self.batch = device, batch
        self.corpus = DeviceCorpus(96, length, vocab, tags, device)
        self.trunk = Trunk(vocab, dim, 2).to(device)
        self.head = TagHead(dim, tags).to(device)
        self.eval_trunk, self.eval_head = copy.deepcopy(self.trunk), copy.deepcopy(self.head)
        params = [*self.trunk.parameters(), *self.head.parameters()]
        self.params = params
        self.lr = torch.full((), 1e-3, device=device)
        self.opt = torch.optim.AdamW(params, lr=self.lr, capturable=True)
        self.ema = Ema((self.trunk, self.head), 0.95)
        sample = torch.ones(batch, length, dtype=torch.long, device=device)
        self.graphed = torch.cuda.make_graphed_callables(self.trunk, (sample,))
        self.loss_sum = torch.zeros((), device=device)
        self.steps = 0

    def rate(self, step, total, peak=4e-3):
        return peak * 0.5 * (1 + math.cos(math.pi * step / total)) + 1e-5

    def step(self, ids, tags, weight, total):
        self.lr.fill_(self.rate(self.steps, total))
        self.opt.zero_grad(set_to_none=True)
        loss = self.head(self.graphed(ids), tags, weight)
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, 1.0)
        self.opt.step()
        self.ema.update()
        self.loss_sum.add_(loss.detach())
        self.steps += 1

    def train_epoch(self, total):
        self.loss_sum.zero_()
        batches = 0
        for ids, tags, weight in self.corpus.epoch(self.batch):
            self.step(ids, tags, weight, total)
            batches += 1
        return self.loss_sum / batches

    @torch.no_grad()
    def evaluate(self):
        self.ema.write_into((self.eval_trunk, self.eval_head))
        hidden = self.eval_trunk(self.corpus.ids)
        return self.eval_head(hidden, self.corpus.tags, self.corpus.weight)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    trainer = Trainer(torch.device("cuda"))
    total = args.epochs * (trainer.corpus.rows // trainer.batch)
    history = []
    for _ in range(args.epochs):
        history.append(trainer.train_epoch(total))
        history.append(trainer.evaluate())
    print(torch.stack(history).view(-1, 2).tolist())


if __name__ == "__main__":
    main()
