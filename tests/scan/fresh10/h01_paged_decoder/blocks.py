"""Page bookkeeping: every decoding slot owns a fixed row of pages."""
import torch

PAGE = 4


class PageTable:
    def __init__(self, slots, pages_per_slot, device):
        self.slots = slots
        self.pages_per_slot = pages_per_slot
        total = slots * pages_per_slot
        self.rows = torch.arange(total, device=device).view(slots, pages_per_slot)
        self.free = list(range(slots))

    def acquire(self, count):
        if count > len(self.free):
            raise RuntimeError("no free decoding slots")
        taken, self.free = self.free[:count], self.free[count:]
        return taken

    def release(self, slots):
        self.free.extend(slots)

    def rows_for(self, slots):
        return torch.stack([self.rows[s] for s in slots])
