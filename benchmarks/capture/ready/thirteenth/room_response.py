"""Real-time convolution reverb: partitioned FFT convolution; the room is simulated on the host now and then."""
import numpy as np
import torch

import graphsafe

BLOCK, PARTS = 256, 12


class Reverb:
    def __init__(self, device):
        self.device = device
        self.block = torch.zeros(2, BLOCK, device=device)
        self.tail = torch.zeros(2, BLOCK, device=device)
        self.spectra = torch.zeros(2, PARTS, BLOCK + 1, dtype=torch.complex64, device=device)
        self.distance, self.blocks = 3.0, 0
        self.load_room()

    def simulate(self):
        """Image sources of a shoebox, one after the other."""
        response = np.zeros(PARTS * BLOCK)
        for i in range(-9, 10):
            for j in range(-9, 10):
                for m in range(-4, 5):
                    r = np.sqrt((4 * i + self.distance) ** 2 + (5 * j) ** 2 + (3 * m) ** 2) + 0.5
                    at = int(r * 30)
                    if at < len(response):
                        response[at] += 0.8 ** (abs(i) + abs(j) + abs(m)) / r
        return torch.from_numpy(response).float()

    def load_room(self):
        parts = self.simulate().view(PARTS, BLOCK)
        self.room = torch.fft.rfft(parts.to(self.device), n=2 * BLOCK)

    def listen(self, args, kwargs, k):
        self.block.copy_(torch.randn(2, BLOCK))
        self.blocks += 1
        self.simulate()  # the visualiser wants it in any case
        if self.blocks == 172:
            self.distance = 9.0
            self.load_room()

    def step(self):
        self.spectra.copy_(self.spectra.roll(1, 1))
        self.spectra[:, 0].copy_(torch.fft.rfft(self.block, n=2 * BLOCK))
        wet = torch.fft.irfft((self.spectra * self.room).sum(1), n=2 * BLOCK)
        out = wet[:, :BLOCK] + self.tail
        self.tail.copy_(wet[:, BLOCK:])
        return out


def build(device):
    reverb = Reverb(device)
    return graphsafe.Step(reverb.step, (), {}, refresh=reverb.listen)
