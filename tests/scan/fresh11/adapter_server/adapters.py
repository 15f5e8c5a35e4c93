import torch
import torch.nn as nn

from layers import AdaptedLinear


class AdapterStore:
    def __init__(self, model: nn.Module):
        self.model = model
        self._sets: dict[str, dict[str, torch.Tensor]] = {}
        self.active: str | None = None

    def register(self, name: str, seed: int) -> None:
        gen = torch.Generator().manual_seed(seed)
        weights = {}
        for path, module in self.model.named_modules():
            if isinstance(module, AdaptedLinear):
                for part in ("down", "up"):
                    ref = getattr(module, part)
                    fresh = torch.randn(ref.shape, generator=gen) * 0.3
                    weights[f"{path}.{part}"] = fresh.to(ref.device)
        self._sets[name] = weights

    def activate(self, name: str) -> None:
        if name == self.active:
            return
        for key, value in self._sets[name].items():
            path, part = key.rsplit(".", 1)
            owner = self.model.get_submodule(path)
            setattr(owner, part, nn.Parameter(value, requires_grad=False))
        self.active = name
