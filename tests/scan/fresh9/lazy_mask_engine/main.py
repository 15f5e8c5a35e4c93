"""An engine that captures on its first call, with a mask made there."""

from typing import Optional

import torch
from torch import nn


class MaskedPool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, width)
        self._mask: Optional[torch.Tensor] = None

    def _mask_for(self, lengths, size):
        if self._mask is None:
            span = torch.arange(size, device=lengths.device)
            self._mask = (span < lengths.unsqueeze(1)).float()
        return self._mask

    def forward(self, x, lengths):
        mask = self._mask_for(lengths, x.shape[1])
        pooled = (self.proj(x) * mask.unsqueeze(-1)).sum(dim=1)
        return pooled / lengths.unsqueeze(1)


class LazyEngine:
    def __init__(self, model):
        self.model = model
        self.graph = None

    def _first(self, x, lengths):
        self.x, self.lengths = x.clone(), lengths.clone()
        stream = torch.cuda.Stream(x.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.model(self.x, self.lengths)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.out = self.model(self.x, self.lengths)

    @torch.no_grad()
    def __call__(self, x, lengths):
        if self.graph is None:
            self._first(x, lengths)
        self.x.copy_(x)
        self.lengths.copy_(lengths)
        self.graph.replay()
        return self.out.clone()


def main():
    device = torch.device("cuda")
    engine = LazyEngine(MaskedPool(4).to(device))
    pooled = []
    for longest in (2, 5, 3, 4):
        x = torch.randn(3, 5, 4, device=device)
        lengths = torch.randint(1, longest + 1, (3,), device=device)
        pooled.append(engine(x, lengths))
    print(torch.stack(pooled).shape)


if __name__ == "__main__":
    main()
