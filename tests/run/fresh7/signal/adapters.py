"""Per-tenant low-rank deltas."""
import torch


class AdapterLibrary:
    def __init__(self, width, rank, tenants, device):
        gen = torch.Generator().manual_seed(11)
        self.width, self.rank, self.device = width, rank, device
        self.entries = {}
        for name, alpha in tenants.items():
            down = torch.randn(width, rank, generator=gen) / width ** 0.5
            up = torch.randn(rank, width, generator=gen) / rank ** 0.5
            self.entries[name] = (down.to(device), up.to(device), alpha)


class ActiveAdapter:
    """What the layers read. One tenant is active at a time."""

    def __init__(self, library):
        self.library = library
        self.slots = {
            "down": torch.zeros(library.width, library.rank, device=library.device),
            "up": torch.zeros(library.rank, library.width, device=library.device),
        }
        self.tenant = None

    def activate(self, tenant):
        if tenant == self.tenant:
            return
        down, up, alpha = self.library.entries[tenant]
        torch.mul(down, alpha, out=self.slots["down"])
        self.slots["up"].copy_(up)
        self.tenant = tenant

    def apply(self, x):
        return (x @ self.slots["down"]) @ self.slots["up"]
