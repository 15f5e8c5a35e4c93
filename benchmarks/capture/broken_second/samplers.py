import math

import torch
import torch.nn.functional as F
from torch import nn

import graphsafe


def pick(flag, a, b): return a if flag else b


def build_nucleus_sampler(device):
    torch.manual_seed(31)
    vocab, dim = 96, 24
    head = nn.Linear(dim, vocab).to(device).requires_grad_(False)
    norm = nn.LayerNorm(dim).to(device).requires_grad_(False)

    def penalise(logits, history, strength):
        seen = logits.gather(1, history)
        scaled = torch.where(seen > 0, seen / strength, seen * strength)
        return logits.scatter(1, history, scaled)

    def nucleus(probs, top_p):
        ranked, index = probs.sort(-1, descending=True)
        mass = ranked.cumsum(-1) - ranked
        ranked = ranked.masked_fill(mass > top_p, 0.0)
        return torch.zeros_like(probs).scatter(1, index, ranked)

    def step(hidden, history, *, temperature=0.8, top_p=0.9):
        logits = head(norm(hidden)) / temperature
        logits = penalise(logits, history, 1.2)
        probs = logits.softmax(-1)
        filtered = nucleus(probs, top_p)
        filtered = filtered / filtered.sum(-1, keepdim=True)
        entropy = -(probs * probs.clamp_min(1e-9).log()).sum(-1)
        chosen = pick(entropy.mean() < 4.315, filtered, probs)
        noise = torch.empty_like(chosen).exponential_(1.0)
        token = (chosen / noise).argmax(-1, keepdim=True)
        logprob = chosen.gather(1, token).clamp_min(1e-9).log()
        return token, logprob, entropy

    hidden = torch.randn(4, dim, device=device)
    history = torch.randperm(vocab, device=device)[:24].view(4, 6)
    return step, (hidden, history), {"temperature": 0.8, "top_p": 0.9}


class Denoiser(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.first = nn.Linear(dim + 1, 48)
        self.second = nn.Linear(48, 48)
        self.last = nn.Linear(48, dim)

    def forward(self, x, sigma):
        phase = sigma.log().expand(x.shape[0], 1)
        h = F.silu(self.first(torch.cat([x, phase], -1)))
        h = h + F.silu(self.second(h))
        return self.last(h)


def build_thresholded_diffusion(device):
    torch.manual_seed(32)
    net = Denoiser(16).to(device)
    sigmas = torch.linspace(1.5, 0.1, 4, device=device)

    def step(x):
        with torch.no_grad():
            for i in range(3):
                sigma, nxt = sigmas[i], sigmas[i + 1]
                x0 = net(x / (1 + sigma * sigma).sqrt(), sigma) + x * 0.5
                extent = x0.abs().amax(-1).mean()
                if extent.item() > 0.85:
                    x0 = x0 / x0.abs().amax(-1, keepdim=True).clamp_min(1.0)
                slope = (x - x0) / sigma
                x = x + slope * (nxt - sigma)
        return x, x.std()

    return step, (torch.randn(6, 16, device=device) * 1.5,)


def build_hmc_accept(device):
    torch.manual_seed(33)
    dim = 12
    root = torch.randn(dim, dim, device=device) * 0.3
    precision = root @ root.t() + torch.eye(dim, device=device)
    shift = torch.randn(dim, device=device)
    eps, leaps = 0.65, 4

    def energy(q):
        r = q - shift
        return 0.5 * (r * (r @ precision)).sum()

    def force(q):
        return (q - shift) @ precision

    def step(position, accepted):
        momentum = torch.randn(position.shape, device=position.device)
        before = energy(position) + 0.5 * momentum.pow(2).sum()
        q, p = position, momentum
        p = p - 0.5 * eps * force(q)
        for n in range(leaps):
            q = q + eps * p
            if n < leaps - 1:
                p = p - eps * force(q)
        p = p - 0.5 * eps * force(q)
        after = energy(q) + 0.5 * p.pow(2).sum()
        log_ratio = before - after
        u = torch.rand((), device=position.device)
        if u.log() < 3.0 * log_ratio:
            position.copy_(q)
            accepted.add_(1.0)

    position = torch.randn(3, dim, device=device)
    accepted = torch.zeros((), device=device)
    return step, (position, accepted)


def build_stop_token_decode(device):
    torch.manual_seed(34)
    vocab, dim, stop = 32, 24, 3
    with torch.inference_mode():
        embed = nn.Embedding(vocab, dim).to(device)
        cell = nn.GRUCell(dim, dim).to(device)
        norm = nn.LayerNorm(dim).to(device)
        head = nn.Linear(dim, vocab).to(device)
        hidden = torch.zeros(4, dim, device=device)
        done = torch.zeros(4, dtype=torch.bool, device=device)
    calls = {"n": 0}

    @torch.inference_mode()
    def step(token):
        x = embed(token)
        hidden.copy_(cell(x, hidden))
        logits = head(norm(hidden))
        scaled = logits * 0.7 - logits.amax(-1, keepdim=True)
        gumbel = -torch.log(-torch.log(torch.rand_like(scaled).clamp(1e-6, 1 - 1e-6)))
        nxt = (scaled + gumbel).argmax(-1)
        nxt = torch.where(done, torch.full_like(nxt, stop), nxt)
        done.logical_or_(nxt == stop)
        calls["n"] += 1
        finished = calls["n"] % 4 == 0 and bool(done.all())
        logprob = scaled.log_softmax(-1).gather(1, nxt[:, None])
        return nxt, logprob.squeeze(1), finished

    def reset():
        calls["n"] = 0
        with torch.inference_mode():
            hidden.zero_()
            done.zero_()

    token = torch.randint(0, vocab, (4,), device=device)
    return graphsafe.Step(step, (token,), {}, reset=reset)


class BeamStep:
    def __init__(self, device, beams, vocab, dim):
        self.beams = beams
        self.vocab = vocab
        self.embed = nn.Embedding(vocab, dim).to(device).requires_grad_(False)
        self.cell = nn.GRUCell(dim, dim).to(device).requires_grad_(False)
        self.head = nn.Linear(dim, vocab).to(device).requires_grad_(False)
        self.texts = [[i] for i in range(beams)]

    def expand(self, scores, tokens, hidden):
        hidden = self.cell(self.embed(tokens), hidden)
        logp = self.head(torch.tanh(hidden)).log_softmax(-1)
        total = scores[:, None] + logp
        length = math.pow(6.0, 0.6)
        best, flat = (total / length).view(-1).topk(self.beams)
        return best * length, flat, hidden

    def __remember(self, parents, tokens):
        self.texts = [(self.texts[p] + [t])[-6:] for p, t in zip(parents.tolist(), tokens.tolist())]

    def __call__(self, scores, tokens, hidden):
        best, flat, hidden = self.expand(scores, tokens, hidden)
        parents = torch.div(flat, self.vocab, rounding_mode="floor")
        fresh = flat - parents * self.vocab
        self.__remember(parents, fresh)
        hidden = hidden[parents]
        margin = best[0] - best
        unit = F.normalize(hidden, dim=-1)
        diversity = (unit @ unit.t()).mean()
        scores.copy_(best - best.max())
        tokens.copy_(fresh)
        return hidden, margin, diversity, tuple(self.texts[0])


def build_beam_search(device):
    torch.manual_seed(35)
    search = BeamStep(device, 4, 30, 20)
    scores = torch.zeros(4, device=device)
    tokens = torch.randint(0, 30, (4,), device=device)
    hidden = torch.randn(4, 20, device=device)
    return search, (scores, tokens, hidden)
