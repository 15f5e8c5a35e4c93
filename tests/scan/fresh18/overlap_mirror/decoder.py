"""Recurrent decoder; the logits and the backup of the state overlap on two streams."""

import contextlib

import torch
import torch.nn.functional as F
from torch import nn


class Lane:
    """Work inside the block overlaps with what the current stream does until `join`."""

    def __init__(self, device):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.pending = 0

    @contextlib.contextmanager
    def fork(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        self.pending += 1
        with torch.cuda.stream(self.stream):
            yield

    def join(self) -> None:
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        self.pending = 0


class OverlappedDecoder(nn.Module):
    def __init__(self, width: int, vocabulary: int, rows: int, device):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, device=device)
        self.cell = nn.GRUCell(width, width, device=device)
        self.head = nn.Linear(width, vocabulary, device=device)
        self.register_buffer("hidden", torch.zeros(rows, width, device=device))
        self.register_buffer("backup", torch.zeros(rows, width, device=device))
        self.lane = Lane(device)

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        hidden = self.cell(self.embed(token), self.hidden)
        with self.lane.fork():
            self.backup.copy_(hidden)
        self.hidden.copy_(hidden)
        scores = F.log_softmax(self.head(hidden), -1)
        self.lane.join()
        return scores

    @torch.no_grad()
    def roll_back(self) -> None:
        self.hidden.copy_(self.backup)


def build(device):
    torch.manual_seed(9)
    decoder = OverlappedDecoder(24, 50, rows=6, device=device).requires_grad_(False)
    return decoder, (torch.randint(0, 50, (6,), device=device),)
