"""Pinned memory on both sides of the device."""
import torch


class Outgoing:
    """What the host sends for one step; two of them take turns."""

    def __init__(self, rows, hop):
        self.audio = torch.zeros(rows, hop, pin_memory=True)
        self.slots = torch.zeros(rows, dtype=torch.int64, pin_memory=True)
        self.floor = torch.zeros(rows, pin_memory=True)
        self.sent = torch.cuda.Event()

    def write(self, packets, padded, scratch):
        self.sent.synchronize()
        for row, packet in enumerate(packets):
            self.audio[row].copy_(packet.audio)
            self.slots[row] = packet.slot
            self.floor[row] = packet.floor
        used = len(packets)
        self.audio[used:padded].zero_()
        self.slots[used:padded].fill_(scratch)
        self.floor[used:padded].fill_(1.0)

    def send(self, entry):
        n = entry.rows
        entry.audio.copy_(self.audio[:n], non_blocking=True)
        entry.slots.copy_(self.slots[:n], non_blocking=True)
        entry.floor.copy_(self.floor[:n], non_blocking=True)
        self.sent.record()


class Incoming:
    def __init__(self, rows, hop):
        self.audio = torch.zeros(rows, hop, pin_memory=True)
        self.arrived = torch.cuda.Event()
        self.used = 0

    def receive(self, out, used):
        self.audio[: out.shape[0]].copy_(out, non_blocking=True)
        self.arrived.record()
        self.used = used

    def rows(self):
        self.arrived.synchronize()
        return self.audio[: self.used].clone()
