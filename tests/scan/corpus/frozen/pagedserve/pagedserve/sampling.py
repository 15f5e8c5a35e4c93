"""Samplers by name."""

import functools
import time

import torch

SAMPLERS = {}


def register(name):
    def wrap(fn):
        SAMPLERS[name] = fn
        return fn

    return wrap


@register("top_p")
def top_p(logits, p=0.9):
    ordered, order = logits.softmax(-1).sort(descending=True)
    keep = ordered.cumsum(-1) - ordered < p
    ordered[~keep] = 0.0
    flat = order[keep]  # guilty: nucleus GS202
    return ordered.sum(-1) + flat.float().mean()


@register("top_p_masked")  # quiet: nucleus_masked
def top_p_masked(logits, p=0.9):
    ordered, order = logits.softmax(-1).sort(descending=True)
    keep = ordered.cumsum(-1) - ordered < p
    return torch.where(keep, ordered, 0.0).sum(-1) + order[:, 0]


@register("top_k_each")
def top_k_each(logits, top_k=None):
    return logits.topk(top_k.max()).values.sum(-1)  # guilty: widest_k GS203|GS101


class Sampler:
    def __init__(self, kind, **options):
        self.draw = functools.partial(SAMPLERS[kind], **options)

    def sample(self, logits):
        return self.draw(logits)


class SeededSampler:
    """Each request may bring its own seed."""

    def __init__(self, seeds, device):
        self.generators = {row: torch.Generator(device).manual_seed(seed) for row, seed in seeds.items()}

    def sample(self, logits):
        noise = torch.empty_like(logits)
        for row, generator in self.generators.items():
            noise[row].exponential_(generator=generator)  # guilty: seeded_rows GS502
        return (logits.softmax(-1) / noise.clamp(min=1e-6)).sum(-1)


# quiet: unseeded_rows
class UnseededSampler:
    def sample(self, logits):
        noise = torch.empty_like(logits).exponential_()
        return logits.softmax(-1) / noise.clamp(min=1e-6)


class CoolingSampler:
    """Grows greedier until a period is over, and begins anew."""

    def __init__(self, period=30.0):
        self.begun = time.monotonic()
        self.period = period

    @property
    def temperature(self):
        return 2.0 - (time.monotonic() - self.begun) / self.period % 1.0  # guilty: cooling GS504|GS702

    def sample(self, logits):
        return logits / self.temperature


def repetition_counts(tokens, vocab):
    return torch.bincount(tokens.flatten(), minlength=vocab)  # guilty: repetition GS201


class RepetitionPenalty:
    def __init__(self, vocab, strength=0.3):
        self.vocab, self.strength = vocab, strength

    def __call__(self, logits, tokens):
        return logits - self.strength * repetition_counts(tokens, self.vocab)


class BannedWords:
    def __init__(self, words):
        self.words = list(words)

    def __call__(self, logits, tokens):
        logits[:, self.words] = -1e9  # guilty: banned_words GS302|GS303|GS301
        return logits + tokens.sum()


class MinLength:
    """Forbids the end of the text while it is short."""

    def __init__(self, eos, length):
        self.eos, self.length, self.generated = eos, length, 0

    def __call__(self, logits, tokens):
        self.generated += 1  # guilty: min_length GS702
        if self.generated % self.length:  # guilty: min_length GS702
            logits = logits.masked_fill(torch.arange(logits.shape[-1], device=logits.device) == self.eos, -1e9)
        return logits + tokens.sum()


class ProcessorChain:
    def __init__(self, *processors):
        self.processors = processors

    def process(self, logits, tokens):
        logits = logits.clone()
        for processor in self.processors:
            logits = processor(logits, tokens)
        return logits
