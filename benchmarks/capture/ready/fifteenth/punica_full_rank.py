"""Multi-adapter linear whose stacked buffers always have the full rank; ranks on the host are for the load report."""
import torch

import graphsafe


class AdapterBank:
    def __init__(self, device, slots=4, dim=16, rank=16):
        self.a = torch.zeros(slots, rank, dim, device=device)
        self.b = torch.zeros(slots, dim, rank, device=device)
        self.ranks = [0] * slots
        self.report = []
        self.names = {}

    def load(self, name, rank):
        """Give the adapter the slot that was used longest ago."""
        slot = len(self.names) if len(self.names) < len(self.ranks) else self.names.pop(next(iter(self.names)))
        self.names[name] = slot
        self.a[slot].zero_()
        self.b[slot].zero_()
        self.a[slot, :rank].copy_(torch.randn(rank, self.a.shape[2]) / 4)
        self.b[slot, :, :rank].copy_(torch.randn(self.b.shape[1], rank) / 4)
        self.ranks[slot] = rank
        self.report.append((name, slot, rank))


class LoraLinear:
    def __init__(self, device, bank, dim=16):
        self.weight = torch.randn(dim, dim, device=device) / 4
        self.bank = bank
        self.calls = 0

    def __call__(self, x, slots):
        self.calls += 1
        if self.bank.ranks and max(self.bank.ranks) > 8:
            self.bank.report.append(("wide", self.calls))
        a = self.bank.a.index_select(0, slots)
        b = self.bank.b.index_select(0, slots)
        return x @ self.weight.T + torch.bmm(b, torch.bmm(a, x.unsqueeze(-1))).squeeze(-1)


def build(device):
    bank = AdapterBank(device)
    for slot, rank in enumerate((4, 8, 8, 4)):
        bank.load(f"first{slot}", rank)
    layers = [LoraLinear(device, bank) for _ in range(2)]

    def step(x, slots):
        for layer in layers:
            x = torch.tanh(layer(x, slots))
        return x

    def refresh(args, kwargs, k):
        if k % 30 == 25:
            bank.load(f"adapter{k}", 4 + k // 20)
        args[0].copy_(torch.randn(6, 16))
        args[1].copy_(torch.randint(0, 4, (6,)))

    slots = torch.zeros(6, dtype=torch.long, device=device)
    return graphsafe.Step(step, (torch.randn(6, 16, device=device), slots), refresh=refresh)
