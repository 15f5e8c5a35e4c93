"""Annealed refinement of categorical states (masked-token generation)."""
import torch
import torch.nn as nn


class Scorer(nn.Module):
    def __init__(self, dim, vocab):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.head = nn.Linear(dim, vocab)

    def forward(self, hidden):
        return self.head(hidden + self.body(hidden))


class AnnealedSampler:
    def __init__(self, device, rows=8, dim=32, vocab=48, start=1.5, floor=0.2, rate=0.8):
        torch.manual_seed(0)
        self.device = device
        self.scorer = Scorer(dim, vocab).to(device).eval().requires_grad_(False)
        self.temperature = start
        self.floor = floor
        self.rate = rate
        self.hidden = torch.zeros(rows, dim, device=device)
        self.probs = None
        self.graph = None

    def distribution(self, hidden):
        logits = self.scorer(hidden)
        top, _ = logits.topk(8, dim=-1)
        logits = logits.masked_fill(logits < top[:, -1:], float("-inf"))
        return torch.softmax(logits / self.temperature, dim=-1)

    def prepare(self):
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.distribution(self.hidden)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.probs = self.distribution(self.hidden)

    def cool(self):
        self.temperature = max(self.floor, self.temperature * self.rate)

    def anneal(self, states):
        """states: [steps, rows, dim], the hidden states of each sweep."""
        if self.graph is None:
            self.prepare()
        sweeps = []
        for step in range(states.shape[0]):
            self.hidden.copy_(states[step])
            self.graph.replay()
            sweeps.append(self.probs)
            self.cool()
        return torch.stack(sweeps)


def build(device):
    sampler = AnnealedSampler(device)
    hidden = torch.randn(8, 32, device=device)
    return sampler.distribution, (hidden,)
