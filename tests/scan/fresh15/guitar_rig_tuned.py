"""A guitar amplifier model on recorded blocks; knob and history are tensors of the device."""

import torch
import torch.nn as nn

BLOCK, CHANNELS, TAPS = 256, 8, 33


class Amp(nn.Module):
    def __init__(self):
        super().__init__()
        self.pre = nn.Conv1d(1, CHANNELS, TAPS)
        self.cabinet = nn.Conv1d(CHANNELS, 1, 1)

    def forward(self, block, history, drive):
        joined = torch.cat([history, block], -1)
        wet = self.cabinet(torch.tanh(self.pre(joined) * drive))
        return wet, joined[..., -(TAPS - 1) :]


class Rig:
    def __init__(self, amp):
        self.amp = amp
        self.block = torch.zeros(1, 1, BLOCK, device="cuda")
        self.history = torch.zeros(1, 1, TAPS - 1, device="cuda")
        self.drive = torch.full((), 2.0, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def warm(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.amp(self.block, self.history, self.drive)
        torch.cuda.current_stream().wait_stream(side)

    def record(self):
        self.warm()
        with torch.cuda.graph(self.graph):
            self.wet, tail = self.amp(self.block, self.history, self.drive)
            self.history.copy_(tail)

    def turn(self, knob):
        self.drive.fill_(0.5 + 4.0 * knob)

    def play(self, samples):
        self.block.copy_(samples, non_blocking=True)
        self.graph.replay()
        return self.wet


def tape(blocks):
    """All samples lie in one pinned tensor that nobody writes while the rig plays."""
    time = torch.arange(blocks * BLOCK) / 16000.0
    return torch.sin(2 * torch.pi * 120 * time).view(blocks, 1, 1, BLOCK).pin_memory()


@torch.inference_mode()
def main():
    torch.manual_seed(6)
    rig = Rig(Amp().cuda().eval())
    rig.record()
    recorded = torch.empty(48 * BLOCK, device="cuda")
    for number, samples in enumerate(tape(48)):
        if number % 16 == 0:
            rig.turn(number / 48)
        wet = rig.play(samples)
        recorded[number * BLOCK : (number + 1) * BLOCK].copy_(wet.view(-1))
    torch.save(recorded.cpu(), "take.pt")


if __name__ == "__main__":
    main()
