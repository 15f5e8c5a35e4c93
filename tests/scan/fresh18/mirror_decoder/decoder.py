"""A recurrent decoder that mirrors its hidden state to a backup buffer on a copy stream."""

import contextlib

import torch
import torch.nn.functional as F
from torch import nn


class CopyLane:
    """Owns the stream on which backups are made."""

    def __init__(self, device):
        self.device = device
        self.stream = torch.cuda.Stream(device)

    @contextlib.contextmanager
    def after_current(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            yield self.stream

    def finish(self) -> None:
        torch.cuda.current_stream(self.device).wait_stream(self.stream)


class MirroredDecoder(nn.Module):
    def __init__(self, width: int, vocabulary: int, rows: int, device):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, device=device)
        self.cell = nn.GRUCell(width, width, device=device)
        self.head = nn.Linear(width, vocabulary, device=device)
        self.register_buffer("hidden", torch.zeros(rows, width, device=device))
        self.register_buffer("backup", torch.zeros(rows, width, device=device))
        self.lane = CopyLane(device)

    def mirror(self, hidden: torch.Tensor) -> None:
        self.lane.stream.wait_stream(torch.cuda.current_stream(hidden.device))
        with torch.cuda.stream(self.lane.stream):
            self.backup.copy_(hidden)

    def restore(self) -> None:
        self.lane.finish()
        self.hidden.copy_(self.backup)

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        hidden = self.cell(self.embed(token), self.hidden)
        self.mirror(hidden)
        self.hidden.copy_(hidden)
        return F.log_softmax(self.head(hidden), -1)


def build(device):
    torch.manual_seed(9)
    decoder = MirroredDecoder(24, 50, rows=6, device=device).requires_grad_(False)
    token = torch.randint(0, 50, (6,), device=device)
    return decoder, (token,)
