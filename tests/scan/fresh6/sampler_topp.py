"""Token sampler with a repetition penalty, nucleus filtering and an exploring temperature."""
import random
from dataclasses import dataclass

import torch


@dataclass
class SamplingParams:
    temperature: float = 0.8
    top_p: float = 0.9
    penalty: float = 1.3
    explore: float = 0.1
    seed: int | None = 1234


class History:
    """Every token that the batch has produced so far."""

    def __init__(self, batch: int, device):
        self.tokens = torch.zeros(batch, 1, dtype=torch.long, device=device)

    def add(self, token: torch.Tensor) -> None:
        self.tokens = torch.cat([self.tokens, token], dim=1)

    def seen(self, vocab: int) -> torch.Tensor:
        flags = torch.zeros(self.tokens.shape[0], vocab, dtype=torch.bool, device=self.tokens.device)
        return flags.scatter(1, self.tokens, True)


class Processor:
    def __call__(self, logits, sampler):
        raise NotImplementedError


class RepetitionPenalty(Processor):
    def __call__(self, logits, sampler):
        seen = sampler.history.seen(logits.shape[-1])
        scaled = torch.where(logits > 0, logits / sampler.params.penalty, logits * sampler.params.penalty)
        return torch.where(seen, scaled, logits)


class Temperature(Processor):
    def __call__(self, logits, sampler):
        p = sampler.params
        hot = random.random() < p.explore
        return logits / (1.5 if hot else p.temperature)


class Nucleus(Processor):
    def __call__(self, logits, sampler):
        ranked, order = logits.sort(dim=-1, descending=True)
        mass = ranked.softmax(-1).cumsum(-1)
        drop = (mass - ranked.softmax(-1)) > sampler.params.top_p
        ranked = ranked.masked_fill(drop, float("-inf"))
        return torch.empty_like(ranked).scatter_(1, order, ranked)


class Sampler:
    def __init__(self, params: SamplingParams, batch: int, device):
        self.params = params
        self.history = History(batch, device)
        self.chain: list[Processor] = [RepetitionPenalty(), Temperature(), Nucleus()]

    def __call__(self, logits):
        for processor in self.chain:
            logits = processor(logits, self)
        if self.params.seed is not None:
            torch.manual_seed(self.params.seed)
        noise = torch.empty_like(logits).exponential_()
        token = (logits.softmax(-1) / noise).argmax(-1, keepdim=True)
        self.history.add(token)
        return token


def build(device):
    torch.manual_seed(0)
    sampler = Sampler(SamplingParams(), batch=4, device=device)
    logits = torch.randn(4, 1000, device=device)
    return sampler, (logits,)
