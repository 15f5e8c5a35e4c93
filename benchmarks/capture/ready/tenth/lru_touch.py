"""Conversations share a fixed bank of memory slots; a new one takes the slot that was used least recently."""
from collections import OrderedDict

import torch
from torch import nn

import graphsafe


class SlotBank:
    def __init__(self, slots, width, device):
        self.rows = torch.zeros(slots, width, device=device)
        self.owners = OrderedDict((f"c{i}", i) for i in range(slots))
        self.born = slots

    def use(self, conversation):
        self.owners.move_to_end(conversation)

    def admit(self, greeting):
        oldest, slot = self.owners.popitem(last=False)
        self.owners[f"c{self.born}"] = slot
        self.born += 1
        self.rows[slot].copy_(greeting)


class Chat(nn.Module):
    def __init__(self, bank, name, width, device):
        super().__init__()
        self.bank, self.name = bank, name
        self.slot = torch.tensor([bank.owners[name]], device=device)
        self.read = nn.Linear(width, width).to(device)

    def forward(self, x):
        if self.name in self.bank.owners:
            self.bank.use(self.name)
        memory = self.bank.rows.index_select(0, self.slot)
        out = torch.tanh(self.read(x) + memory)
        self.bank.rows.index_copy_(0, self.slot, memory.lerp(out.mean(0, keepdim=True), 0.2))
        return out


def build(device, batch=2, width=16, slots=4):
    bank = SlotBank(slots, width, device)
    model = Chat(bank, "c2", width, device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        if k % 6 == 5:
            bank.admit(torch.randn(width))

    return graphsafe.Step(model, (x,), refresh=refresh)
