"""Standardisation of fields, with the moments of the data seen."""
import torch


class Standardiser:
    def __init__(self, fields: int, eps: float = 1e-5):
        self.fields = fields
        self.eps = eps
        self.fitted = False
        self.mean = None
        self.std = None

    def fit(self, u: torch.Tensor) -> None:
        self.mean = u.mean(dim=(0, 2, 3), keepdim=True)
        self.std = u.std(dim=(0, 2, 3), keepdim=True).clamp_min(self.eps)
        self.fitted = True

    def encode(self, u: torch.Tensor) -> torch.Tensor:
        if not self.fitted:
            self.fit(u)
        return (u - self.mean) / self.std

    def decode(self, v: torch.Tensor) -> torch.Tensor:
        return v * self.std + self.mean
