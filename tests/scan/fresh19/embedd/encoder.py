import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocab: int, dim: int, layers: int = 2):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim, padding_idx=0)
        self.places = nn.Embedding(64, dim)
        self.mix = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.tokens(ids) + self.places(places)
        for mix in self.mix:
            scores = (x @ x.transpose(1, 2)).masked_fill(~mask[:, None, :], -1e4)
            x = x + mix(scores.softmax(-1) @ x)
        return x


def pool(states: torch.Tensor, mask: torch.Tensor, how: str) -> torch.Tensor:
    if how == "cls":
        return states[:, 0]
    weights = mask.to(states.dtype)[..., None]
    if how == "mean":
        return (states * weights).sum(1) / weights.sum(1).clamp(min=1)
    return (states - (1 - weights) * 1e4).amax(1)
