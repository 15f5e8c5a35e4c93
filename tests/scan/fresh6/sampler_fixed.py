"""Token sampler with a repetition penalty, nucleus filtering and an exploring temperature."""
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class SamplingParams:
    temperature: float = 0.8
    hot: float = 1.5
    top_p: float = 0.9
    penalty: float = 1.3
    explore: float = 0.1


class History:
    """Which tokens every row has produced so far."""

    def __init__(self, batch: int, vocab: int, device):
        self.flags = torch.zeros(batch, vocab, dtype=torch.bool, device=device)
        self.count = torch.zeros(batch, dtype=torch.long, device=device)

    def add(self, token: torch.Tensor) -> None:
        self.flags.scatter_(1, token, True)
        self.count.add_(1)


class Processor:
    def __call__(self, logits, sampler):
        raise NotImplementedError


class RepetitionPenalty(Processor):
    def __call__(self, logits, sampler):
        penalty = sampler.params.penalty
        scaled = torch.where(logits > 0, logits / penalty, logits * penalty)
        return torch.where(sampler.history.flags, scaled, logits)


class Temperature(Processor):
    def __call__(self, logits, sampler):
        p = sampler.params
        hot = torch.rand_like(logits[:, :1]) < p.explore
        return torch.where(hot, logits / p.hot, logits / p.temperature)


class Nucleus(Processor):
    def __call__(self, logits, sampler):
        ranked, order = logits.sort(dim=-1, descending=True)
        chances = ranked.softmax(-1)
        drop = (chances.cumsum(-1) - chances) > sampler.params.top_p
        ranked = ranked.masked_fill(drop, float("-inf"))
        return torch.zeros_like(ranked).scatter(1, order, ranked)


class Sampler:
    def __init__(self, params: SamplingParams, batch: int, vocab: int, device):
        self.params = params
        self.history = History(batch, vocab, device)
        self.chain: tuple[Processor, ...] = (RepetitionPenalty(), Temperature(), Nucleus())

    def __call__(self, logits):
        for processor in self.chain:
            logits = processor(logits, self)
        noise = torch.rand_like(logits).clamp_min(1e-9).log().neg()
        token = (logits.softmax(-1) / noise).argmax(-1, keepdim=True)
        self.history.add(token)
        return token


def build(device):
    torch.manual_seed(0)
    sampler = Sampler(SamplingParams(), batch=4, vocab=1000, device=device)
    logits = torch.randn(4, 1000, device=device)
    return sampler, (logits,)
