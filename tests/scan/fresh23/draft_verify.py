"""Speculative decoding: a draft model proposes, the target checks the window in one graph replay."""
import random
from typing import NamedTuple

import torch
from torch import nn

VOCAB = 40
MAX_GAMMA = 5


class TinyLM(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.mix = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.head = nn.Linear(dim, VOCAB, bias=False)

    def forward(self, ids):
        x = self.emb(ids)
        x = x + self.mix(x.cumsum(1) / torch.arange(1, ids.shape[1] + 1, device=ids.device)[None, :, None])
        return self.head(x).softmax(-1)


def record(fn, stream):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            fn()
    torch.cuda.current_stream().wait_stream(stream)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, stream=stream):
        result = fn()
    return g, result


class DraftSide:
    def __init__(self, lm, batch, device, stream):
        self.lm = lm
        self.token = torch.zeros(batch, 1, dtype=torch.long, device=device)
        self.graph, (self.picked, self.q) = record(self._propose, stream)

    def _propose(self):
        q = self.lm(self.token)[:, -1]
        picked = q.argmax(-1, keepdim=True)
        self.token.copy_(picked)
        return picked, q

    def run(self, start, gamma):
        self.token.copy_(start)
        tokens, dists = [], []
        for _ in range(gamma):
            self.graph.replay()
            tokens.append(self.picked.clone())
            dists.append(self.q)
        return torch.cat(tokens, 1), torch.stack(dists, 1)


class Verifier(NamedTuple):
    graph: torch.cuda.CUDAGraph
    window: torch.Tensor
    q: torch.Tensor
    accepted: torch.Tensor


class TargetSide:
    def __init__(self, lm, device, stream):
        self.lm, self.device, self.stream = lm, device, stream
        self.verifiers: dict[int, Verifier] = {}

    def _check(self, window, q, gamma):
        p = self.lm(window[:, : gamma + 1])[:, :-1]
        drafted = window[:, 1 : gamma + 1, None]
        ratio = p.gather(2, drafted) / q[:, :gamma].gather(2, drafted).clamp_min(1e-6)
        keep = ratio.squeeze(2) > random.random()
        return keep.long().cumprod(1).sum(1)

    def verify(self, start, tokens, dists, gamma):
        batch = start.shape[0]
        if batch not in self.verifiers:
            window = torch.zeros(batch, MAX_GAMMA + 1, dtype=torch.long, device=self.device)
            q = torch.ones(batch, MAX_GAMMA, VOCAB, device=self.device)
            graph, accepted = record(lambda: self._check(window, q, gamma), self.stream)
            self.verifiers[batch] = Verifier(graph, window, q, accepted)
        v = self.verifiers[batch]
        v.window.zero_()
        v.window[:, :1].copy_(start)
        v.window[:, 1 : gamma + 1].copy_(tokens)
        v.q[:, :gamma].copy_(dists)
        v.graph.replay()
        return v.accepted


class Controller:
    """Moves gamma toward the number of tokens that were accepted lately."""

    def __init__(self):
        self.gamma, self.average = 2, 2.0

    def update(self, accepted):
        self.average = 0.7 * self.average + 0.3 * (sum(accepted) / len(accepted) + 1)
        self.gamma = max(1, min(MAX_GAMMA, round(self.average) + 1))


@torch.no_grad()
def generate(draft, target, prompt, rounds):
    control, last = Controller(), prompt
    emitted = [[] for _ in range(prompt.shape[0])]
    for _ in range(rounds):
        gamma = control.gamma
        tokens, dists = draft.run(last, gamma)
        torch.cuda.synchronize()
        accepted = target.verify(last, tokens, dists, gamma)
        rows = torch.cat((accepted[:, None], tokens), 1).tolist()
        for out, (count, *ids) in zip(emitted, rows):
            out.extend(ids[:count])
        control.update([row[0] for row in rows])
        last = tokens.gather(1, (accepted[:, None] - 1).clamp(0, gamma - 1))
    return emitted


def main(device="cuda"):
    torch.manual_seed(1)
    random.seed(1)
    device = torch.device(device)
    with torch.no_grad():
        stream = torch.cuda.Stream(device)
        draft = DraftSide(TinyLM(16).to(device), 3, device, stream)
        target = TargetSide(TinyLM(32).to(device), device, stream)
    prompt = torch.tensor([[4], [9], [17]], device=device)
    for row in generate(draft, target, prompt, 12):
        print(row)


if __name__ == "__main__":
    main()
