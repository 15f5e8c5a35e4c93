import torch
import torch.nn.functional as F


class AdapterPool:
    """Low-rank weights of all loaded adapters, one slot each; slot 0 is the base model."""

    def __init__(self, dim, max_rank, slots, device):
        self.a = torch.zeros(slots, max_rank, dim, device=device)
        self.b = torch.zeros(slots, dim, max_rank, device=device)
        self.scale = torch.zeros(slots, device=device)
        self.max_rank = max_rank
        self.names = {"base": 0}
        self.ranks = {0: 1}

    @property
    def used_rank(self):
        return max(self.ranks.values())

    def slot(self, name):
        return self.names[name]

    def load(self, name, a, b, alpha):
        slot = self.names.get(name, len(self.names))
        if slot >= self.a.shape[0]:
            raise RuntimeError("no free adapter slot")
        rank = a.shape[0]
        self._publish(slot, F.pad(a, (0, 0, 0, self.max_rank - rank)), F.pad(b, (0, self.max_rank - rank)))
        self.scale[slot:slot + 1].fill_(alpha / rank)
        self.names[name] = slot
        self.ranks[slot] = rank
        return slot

    def _publish(self, slot, a, b):
        """Replaces both factors of a slot at once, so that no step sees half an adapter."""
        new_a, new_b = self.a.clone(), self.b.clone()
        new_a[slot], new_b[slot] = a, b
        self.a, self.b = new_a, new_b


def random_adapter(rank, dim, device):
    return torch.randn(rank, dim, device=device) * 0.3, torch.randn(dim, rank, device=device) * 0.3
