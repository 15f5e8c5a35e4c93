"""Mirostat sampling with an adaptive cut of surprise: sound, the server moves the cut in its tensor."""
from dataclasses import dataclass

import torch

import graphsafe


@dataclass
class Mirostat:
    observed: torch.Tensor
    mu: torch.Tensor
    tau: float = 2.0
    rate: float = 0.2

    def pick(self, logits, noise):
        surprise = -torch.log_softmax(logits, -1) / 0.6931
        best = surprise == surprise.amin(-1, keepdim=True)
        allowed = (surprise <= self.mu) | best
        token = (logits + noise).masked_fill(~allowed, float("-inf")).argmax(-1, keepdim=True)
        self.observed.copy_(surprise.gather(-1, token).squeeze(-1))
        return token, self.observed.clone()

    def feedback(self):
        error = self.observed.item() - self.tau
        self.mu.sub_(self.rate * error)


def build(device, vocabulary=40):
    sampler = Mirostat(torch.zeros((), device=device), torch.tensor(4.0, device=device))

    def refresh(args, kwargs, k):
        sampler.feedback()
        args[0].copy_(torch.randn(vocabulary) * 1.5)
        args[1].copy_(-torch.log(-torch.log(torch.rand(vocabulary).clamp(1e-6, 0.999999))))

    args = (torch.randn(vocabulary, device=device), torch.zeros(vocabulary, device=device))
    return graphsafe.Step(sampler.pick, args, refresh=refresh)
