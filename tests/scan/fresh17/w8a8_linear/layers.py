import torch
from torch import nn

from .ops import pack_rows, per_tensor, scaled_mm, split_columns


class W8A8Linear(nn.Module):
    def __init__(self, linear: nn.Linear, name: str, threshold: float = 2.5):
        super().__init__()
        self.name, self.threshold = name, threshold
        packed, scale = pack_rows(linear.weight.detach())
        self.register_buffer("weight", linear.weight.detach().clone())
        self.register_buffer("packed", packed)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", linear.bias.detach().clone())
        self.status = ""
        self._smooth = None

    def smooth(self, x: torch.Tensor) -> torch.Tensor:
        if self._smooth is None:
            self._smooth = x.abs().amax(dim=0).clamp_min(1e-3).sqrt()
        return self._smooth

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        s = self.smooth(x)
        keep = split_columns(x, self.threshold)
        exact = x.index_select(1, keep) @ self.weight.index_select(1, keep).t()
        rest = x.index_fill(1, keep, 0.0) / s
        xq, xs = per_tensor(rest)
        wq, ws = pack_rows(self.weight * s)
        out = scaled_mm(xq, xs, wq, ws) + exact + self.bias
        self.status = f"{self.name}: peak {out.abs().amax():.3f}"
        return out
