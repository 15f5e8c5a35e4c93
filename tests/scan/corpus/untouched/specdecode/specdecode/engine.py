"""Draft and target side by side."""

import torch


class TwoStreams:
    def __init__(self, device):
        self.cuda = device.type == "cuda"
        self.draft_stream = torch.cuda.Stream(device) if self.cuda else None

    def decode_step(self, x):
        if self.cuda:
            self.draft_stream.wait_stream(torch.cuda.current_stream())  # guilty: draft_stream GS603
        with torch.cuda.stream(self.draft_stream):  # guilty: draft_stream GS603
            drafted = x.roll(1, -1) * 2  # guilty: draft_stream GS603
        self.pending = drafted
        return x.softmax(-1)


class Profiled:
    def __init__(self, device):
        pair = (torch.cuda.Event(enable_timing=True) for _ in range(2)) if device.type == "cuda" else ()
        self.events = tuple(pair)
        self.milliseconds = []

    def decode_step(self, x):
        for event in self.events[:1]:
            event.record()
        out = x.softmax(-1)
        for event in self.events[1:]:
            event.record()
            self.milliseconds.append(self.events[0].elapsed_time(event))  # guilty: profiled_step GS105
        return out
