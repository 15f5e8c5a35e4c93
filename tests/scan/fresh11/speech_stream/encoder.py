import torch
import torch.nn as nn


class ChunkEncoder(nn.Module):
    """Causal encoder: every chunk is mixed with what the last chunk left behind."""

    def __init__(self, mel: int, hidden: int, batch: int):
        super().__init__()
        self.proj = nn.Linear(mel, hidden)
        self.recur = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, 29)
        self.register_buffer("context", torch.zeros(batch, hidden))

    def forward(self, chunk: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.proj(chunk) + self.recur(self.context).unsqueeze(1))
        self._remember(h)
        return self.head(h).log_softmax(-1)

    def _remember(self, h: torch.Tensor) -> None:
        summary = h.mean(dim=1)
        self.context = 0.5 * self.context + 0.5 * summary
