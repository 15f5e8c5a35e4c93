"""Annealed, guided distribution over tokens; the knobs live on the device."""
import torch
import torch.nn as nn


class Scorer(nn.Module):
    def __init__(self, dim, vocab):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.head = nn.Linear(dim, vocab)

    def forward(self, hidden):
        return self.head(hidden + self.body(hidden))


class GuidedSampler:
    def __init__(self, device, rows=8, dim=32, vocab=48, start=1.5, floor=0.2, rate=0.8):
        torch.manual_seed(0)
        self.device = device
        self.scorer = Scorer(dim, vocab).to(device).eval().requires_grad_(False)
        self.value = start
        self.start = start
        self.floor = floor
        self.rate = rate
        self.temperature = torch.full((), start, device=device)
        self.guidance = torch.ones((), device=device)
        self.hidden = torch.zeros(2, rows, dim, device=device)
        self.graph = None
        self.probs = None

    def distribution(self, hidden):
        with_cond, without = self.scorer(hidden).unbind(0)
        logits = without + self.guidance * (with_cond - without)
        floor = logits.topk(8, dim=-1).values[:, -1:]
        logits = torch.where(logits < floor, float("-inf"), logits)
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
        self.value = max(self.floor, self.value * self.rate)
        self.temperature.fill_(self.value)

    def anneal(self, states, out, guidance=1.0):
        """states: [steps, 2, rows, dim]; out: [steps, rows, vocab]."""
        if self.graph is None:
            self.prepare()
        self.value = self.start
        self.temperature.fill_(self.value)
        self.guidance.fill_(guidance)
        for step in range(states.shape[0]):
            self.hidden.copy_(states[step])
            self.graph.replay()
            out[step].copy_(self.probs)
            self.cool()
        return out


def build(device):
    sampler = GuidedSampler(device)
    hidden = torch.randn(2, 8, 32, device=device)
    return sampler.distribution, (hidden,)
