"""Adapters of the tenants, kept on the device; switching copies one into the encoder."""
import torch

from model import Encoder


class AdapterBank:
    def __init__(self, encoder: Encoder):
        self.projection = encoder.project
        self.stored: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self.active = ""

    def register(self, tenant: str, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        device = self.projection.base.device
        down = torch.randn(self.projection.down.shape, generator=generator).to(device)
        up = torch.randn(self.projection.up.shape, generator=generator).to(device)
        self.stored[tenant] = (down * 0.3, up * 0.3)

    def activate(self, tenant: str) -> None:
        if tenant == self.active:
            return
        down, up = self.stored[tenant]
        self.projection.down.copy_(down)
        self.projection.up.copy_(up)
        self.active = tenant
