"""Contrastive scoring with the negative branch on a second stream."""
import torch
import torch.nn as nn


class Branch(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, dim))

    def forward(self, x):
        return nn.functional.normalize(self.net(x), dim=-1)


class ContrastiveScorer:
    def __init__(self, device, dim=32, rows=16, jitter=0.05, seed=0):
        torch.manual_seed(seed)
        self.device = device
        self.jitter = jitter
        self.query = Branch(dim).to(device).requires_grad_(False)
        self.negative = Branch(dim).to(device).requires_grad_(False)
        self.side = torch.cuda.Stream(device)
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self.noise = torch.zeros(rows, dim, device=device)
        self.bank = torch.zeros(rows, dim, device=device)

    def perturb(self, x):
        self.noise.normal_(generator=self.generator)
        return x + self.jitter * self.noise

    def refresh_bank(self, keys):
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.side):
            self.bank.copy_(self.negative(keys))

    def score(self, x, keys):
        q = self.query(self.perturb(x))
        logits = q @ self.bank.t()
        self.refresh_bank(keys)
        return logits.logsumexp(dim=-1) - logits.diagonal()


def build(device):
    scorer = ContrastiveScorer(device)
    x = torch.randn(16, 32, device=device)
    keys = torch.randn(16, 32, device=device)
    return scorer.score, (x, keys)
