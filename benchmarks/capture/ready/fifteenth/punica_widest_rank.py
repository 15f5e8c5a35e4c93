"""Multi-adapter linear in the manner of a LoRA server: stacked A and B, a slot for each request, ranks known to the host."""
import torch

import graphsafe


class AdapterBank:
    """All adapters live in one stacked buffer; the slot decides which one a row uses."""

    def __init__(self, device, slots=4, dim=16, rank=16):
        self.a = torch.zeros(slots, rank, dim, device=device)
        self.b = torch.zeros(slots, dim, rank, device=device)
        self.ranks = [0] * slots
        self.max_rank = 0

    def load(self, slot, rank):
        self.a[slot].zero_()
        self.b[slot].zero_()
        self.a[slot, :rank].copy_(torch.randn(rank, self.a.shape[2]) / 4)
        self.b[slot, :, :rank].copy_(torch.randn(self.b.shape[1], rank) / 4)
        self.ranks[slot] = rank
        self.max_rank = max(self.ranks)


class LoraLinear:
    def __init__(self, device, bank, dim=16):
        self.weight = torch.randn(dim, dim, device=device) / 4
        self.bank = bank

    def __call__(self, x, slots):
        rank = self.bank.max_rank  # the shrink kernel need not read the empty tail
        a = self.bank.a[:, :rank].index_select(0, slots)
        b = self.bank.b[:, :, :rank].index_select(0, slots)
        down = torch.bmm(a, x.unsqueeze(-1))
        return x @ self.weight.T + torch.bmm(b, down).squeeze(-1)


def build(device):
    bank = AdapterBank(device)
    for slot, rank in enumerate((4, 8, 8, 4)):
        bank.load(slot, rank)
    layers = [LoraLinear(device, bank) for _ in range(2)]

    def step(x, slots):
        for layer in layers:
            x = torch.tanh(layer(x, slots))
        return x

    def refresh(args, kwargs, k):
        if k == 85:
            bank.load(2, 12)
        args[0].copy_(torch.randn(6, 16))
        args[1].copy_(torch.randint(0, 4, (6,)))

    slots = torch.zeros(6, dtype=torch.long, device=device)
    return graphsafe.Step(step, (torch.randn(6, 16, device=device), slots), refresh=refresh)
