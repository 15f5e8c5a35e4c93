"""Sampler metadata made for each batch: penalties are applied only if some request has one."""
import torch

import graphsafe


from dataclasses import dataclass


@dataclass
class SamplingMetadata:
    temperature: torch.Tensor
    repetition: torch.Tensor
    no_penalties: bool


class InputBatch:
    def __init__(self, device, rows):
        self.temperature = torch.ones(rows, device=device)
        self.repetition = torch.ones(rows, device=device)
        self.counts = torch.zeros(rows, 20, device=device)
        self.with_penalty = set()

    def set_row(self, row, temperature, repetition):
        self.temperature[row].fill_(temperature)
        self.repetition[row].fill_(repetition)
        self.with_penalty.discard(row)
        if repetition != 1.0:
            self.with_penalty.add(row)

    def metadata(self):
        return SamplingMetadata(self.temperature, self.repetition, not self.with_penalty)


class Sampler:
    def __init__(self, device, rows=4):
        self.batch = InputBatch(device, rows)
        self.metadata = self.batch.metadata()

    def forward(self, logits):
        meta = self.metadata
        if not meta.no_penalties:
            seen = self.batch.counts > 0
            factor = torch.where(seen, meta.repetition.unsqueeze(1), torch.ones_like(logits))
            logits = torch.where(logits > 0, logits / factor, logits * factor)
        probs = torch.softmax(logits / meta.temperature.unsqueeze(1), -1)
        token = probs.argmax(-1, keepdim=True)
        self.batch.counts.mul_(0.8).scatter_(1, token, 1.0)
        return probs, token


def build(device):
    sampler = Sampler(device)

    def refresh(args, kwargs, k):
        sampler.batch.set_row(k % 4, 0.7 + k % 5 / 10, 1.5 if k >= 64 and k % 9 == 0 else 1.0)
        sampler.metadata = sampler.batch.metadata()
        args[0].copy_(torch.randn(4, 20))

    return graphsafe.Step(sampler.forward, (torch.randn(4, 20, device=device),), refresh=refresh)
