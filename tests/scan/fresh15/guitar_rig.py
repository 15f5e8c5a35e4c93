"""A guitar amplifier model on live blocks of samples; the graph holds the whole chain of effects."""

import numpy as np
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
        self.drive = 2.0
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
            self.history = tail.clone()

    def turn(self, knob):
        self.drive = 0.5 + 4.0 * knob

    def play(self, samples):
        self.block.copy_(torch.from_numpy(samples).view(1, 1, BLOCK))
        self.graph.replay()
        return self.wet


def microphone(blocks):
    phase = 0.0
    for number in range(blocks):
        time = phase + np.arange(BLOCK) / 16000.0
        phase += BLOCK / 16000.0
        yield np.sin(2 * np.pi * (110 + 20 * (number % 4)) * time).astype(np.float32)


@torch.inference_mode()
def main():
    torch.manual_seed(6)
    rig = Rig(Amp().cuda().eval())
    rig.record()
    recorded = torch.empty(48 * BLOCK, device="cuda")
    for number, samples in enumerate(microphone(48)):
        if number % 16 == 0:
            rig.turn(number / 48)
        wet = rig.play(samples)
        recorded[number * BLOCK : (number + 1) * BLOCK].copy_(wet.view(-1))
    torch.save(recorded.cpu(), "take.pt")


if __name__ == "__main__":
    main()
