"""Samplers of language and diffusion models, written as usual."""

import itertools

import torch
import torch.nn.functional as F
from torch import nn


def logits_of(device, batch=8, vocabulary=128):
    return torch.randn(batch, vocabulary, device=device) * 3


def nucleus(device):
    def step(logits):
        ordered, places = logits.sort(descending=True, dim=-1)
        total = ordered.softmax(-1).cumsum(-1)
        drop = total - ordered.softmax(-1) > 0.9
        ordered = ordered.masked_fill(drop, float("-inf"))
        choice = torch.multinomial(ordered.softmax(-1), 1)
        return places.gather(-1, choice)

    return step, (logits_of(device),)


def smallest_probability(device):
    def step(logits):
        chances = logits.softmax(-1)
        logits = logits.clone()
        logits[chances < 0.05 * chances.amax(-1, keepdim=True)] = float("-inf")
        return torch.distributions.Categorical(logits=logits).sample()

    return step, (logits_of(device),)


def repetition_penalty(device):
    def step(logits, history):
        score = logits.gather(1, history)
        score = torch.where(score < 0, score * 1.2, score / 1.2)
        return logits.scatter(1, history, score).argmax(-1)

    return step, (logits_of(device), torch.randint(0, 128, (8, 16), device=device))


def gumbel(device):
    def step(logits):
        return F.gumbel_softmax(logits, tau=0.7, hard=True)

    return step, (logits_of(device),)


def accepted_drafts(device):
    """Speculative decoding: keeps drafted tokens up to the first that is refused."""

    def step(target, draft, tokens):
        ratio = (target.softmax(-1) / draft.softmax(-1)).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        taken = torch.rand_like(ratio) < ratio
        count = taken.long().cumprod(-1).sum(-1)
        return torch.where(torch.arange(4, device=tokens.device) < count.unsqueeze(1), tokens, -1)

    shape = (8, 4, 32)
    tokens = torch.randint(0, 32, shape[:2], device=device)
    return step, (torch.randn(shape, device=device), torch.randn(shape, device=device), tokens)


def beams(device):
    """One step of beam search; finished beams are taken out on the host."""

    def step(logits, scores):
        total = (scores.unsqueeze(1) + logits.log_softmax(-1)).flatten()
        best, places = total.topk(8)
        tokens = places % logits.shape[-1]
        alive = tokens != 2
        return tokens[alive][:4], best

    return step, (logits_of(device), torch.randn(8, device=device))


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width + 1, 64), nn.SiLU(), nn.Linear(64, width))

    def forward(self, x, t):
        return self.net(torch.cat([x, t.expand(x.shape[0], 1)], dim=-1))


def deterministic_sampler(device):
    """Four steps of DDIM over a table of cumulative products."""
    model = Denoiser(8).to(device)
    cumulative = torch.linspace(0.999, 0.01, 100, device=device)

    @torch.no_grad()
    def step(x):
        for now, then in ((99, 66), (66, 33), (33, 0), (0, 0)):
            a, b = cumulative[now], cumulative[then]
            noise = model(x, torch.full((1, 1), now / 100, device=x.device))
            clean = (x - (1 - a).sqrt() * noise) / a.sqrt()
            x = b.sqrt() * clean + (1 - b).sqrt() * noise
        return x

    return step, (torch.randn(4, 8, device=device),)


def ancestral_sampler(device):
    """Euler steps with noise, the levels as a tensor that Python loops over."""
    model = Denoiser(8).to(device)
    sigmas = torch.linspace(10, 0.1, 6, device=device)

    @torch.no_grad()
    def step(x):
        for sigma, following in itertools.pairwise(sigmas):
            up = torch.minimum(following, (following**2 * (sigma**2 - following**2) / sigma**2).sqrt())
            down = (following**2 - up**2).sqrt()
            slope = (x - model(x, sigma.view(1, 1))) / sigma
            x = x + slope * (down - sigma) + torch.randn_like(x) * up
        return x

    return step, (torch.randn(4, 8, device=device),)


def corrected_sampler(device):
    """Skips the correction where the noise level is zero, as samplers do."""
    model = Denoiser(8).to(device)
    sigmas = torch.tensor([5.0, 2.0, 0.5, 0.0], device=device)

    @torch.no_grad()
    def step(x):
        for i in range(len(sigmas) - 1):
            slope = (x - model(x, sigmas[i].view(1, 1))) / sigmas[i]
            following = x + slope * (sigmas[i + 1] - sigmas[i])
            if sigmas[i + 1] != 0:
                again = (following - model(following, sigmas[i + 1].view(1, 1))) / sigmas[i + 1]
                following = x + (slope + again) / 2 * (sigmas[i + 1] - sigmas[i])
            x = following
        return x

    return step, (torch.randn(4, 8, device=device),)
