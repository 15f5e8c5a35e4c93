"""Text and picture towers on two streams; the current stream waits for all work of the other one."""

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH = 32


class Tower(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(size, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x):
        return F.normalize(self.body(x), dim=-1)


class Pair(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.text = Tower(40)
        self.picture = Tower(48)
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.register_buffer("seen", torch.zeros(WIDTH))
        self.register_buffer("target", torch.arange(12))
        self.done = torch.cuda.Event()

    def audit(self, vectors):
        self.seen.mul_(0.99).add_(vectors.mean(0), alpha=0.01)

    @torch.no_grad()
    def forward(self, text, picture):
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            pictures = self.picture(picture)
            self.audit(pictures)
            self.done.record(self.stream)
        texts = self.text(text)
        current.wait_event(self.done)
        loss = F.cross_entropy(texts @ pictures.T * 20, self.target)
        return torch.nan_to_num(loss)


def build(device):
    torch.manual_seed(18)
    pair = Pair(device).to(device)
    return pair, (torch.randn(12, 40, device=device), torch.randn(12, 48, device=device))
