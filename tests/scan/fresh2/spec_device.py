"""Speculative decoding whose acceptance stays on the device; the host reads once at the end."""
import torch
from torch import nn


class MarkovLM(nn.Module):
    def __init__(self, vocab, rank, seed):
        super().__init__()
        gen = torch.Generator().manual_seed(seed)
        self.left = nn.Parameter(torch.randn(vocab, rank, generator=gen))
        self.right = nn.Parameter(torch.randn(rank, vocab, generator=gen))

    def forward(self, ids):
        return self.left[ids] @ self.right


class Ledger:
    """Accepted tokens of each row, packed from the left, in one fixed buffer."""

    def __init__(self, rows, longest, margin, device):
        self.tokens = torch.zeros(rows, longest + margin, dtype=torch.long, device=device)
        self.filled = torch.zeros(rows, dtype=torch.long, device=device)
        self.longest = longest

    def write(self, block):
        at = self.filled[:, None] + torch.arange(block.shape[1], device=block.device)
        self.tokens.scatter_(1, at, block)

    def commit(self, count):
        self.filled.add_(count).clamp_(max=self.longest)

    def to_lists(self):
        counts = self.filled.tolist()
        return [row[:n] for row, n in zip(self.tokens.tolist(), counts)]


class SpeculativeStep:
    def __init__(self, draft, target, rows, gamma, longest, device):
        self.draft, self.target, self.gamma = draft, target, gamma
        self.ledger = Ledger(rows, longest, gamma + 1, device)
        self.accepted = torch.zeros(rows, device=device)

    @torch.no_grad()
    def __call__(self, last):
        guess = [last]
        for _ in range(self.gamma):
            guess.append(self.draft(guess[-1]).argmax(-1))
        proposed = torch.stack(guess, 1)
        checked = self.target(proposed).argmax(-1)
        agree = (proposed[:, 1:] == checked[:, :-1]).long().cumprod(1)
        n = agree.sum(1)
        self.ledger.write(checked)
        self.ledger.commit(n + 1)
        self.accepted.lerp_(n.to(self.accepted.dtype), 0.05)
        return checked.gather(1, n[:, None]).squeeze(1)

    def acceptance(self):
        return self.accepted.mean().item()


class Decoder:
    def __init__(self, step, rows, device):
        self.step = step
        self.last = torch.zeros(rows, dtype=torch.long, device=device)
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(3):
                step(self.last)
        torch.cuda.current_stream(device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=side):
            self.last.copy_(step(self.last))

    def run(self, first, rounds):
        self.step.ledger.filled.zero_()
        self.last.copy_(first)
        for _ in range(rounds):
            self.graph.replay()
        return self.step.ledger.to_lists(), self.step.acceptance()


def build(device):
    draft, target = MarkovLM(64, 6, 0).to(device), MarkovLM(64, 6, 0).to(device)
    with torch.no_grad():
        target.right.mul_(1.1).add_(0.3 * torch.sin(torch.arange(64.0, device=device)))
    step = SpeculativeStep(draft, target, 6, 3, 128, device)
    return step, (torch.arange(6, device=device),)
