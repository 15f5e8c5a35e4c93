"""Noise suppressor frame by frame: windowed FFT, noise floor by recursive minimum, Wiener gain, overlap-add; all in place."""
import torch

import graphsafe

FRAME, HOP = 512, 128


class Suppressor:
    def __init__(self, device, channels=2):
        self.window = torch.hann_window(FRAME, device=device).sqrt()
        self.ring = torch.zeros(channels, FRAME, device=device)
        self.accumulator = torch.zeros(channels, FRAME, device=device)
        self.floor = torch.full((channels, FRAME // 2 + 1), 1e-3, device=device)
        self.smooth = torch.zeros(channels, FRAME // 2 + 1, device=device)
        self.gain = torch.ones(channels, FRAME // 2 + 1, device=device)
        self.input = torch.zeros(channels, HOP, device=device)
        self.output = torch.zeros(channels, HOP, device=device)

    def step(self):
        shifted = self.ring[:, HOP:].clone()  # source and target overlap
        self.ring[:, :-HOP].copy_(shifted)
        self.ring[:, -HOP:].copy_(self.input)
        spectrum = torch.fft.rfft(self.ring * self.window)
        power = torch.view_as_real(spectrum).square().sum(-1)
        self.smooth.lerp_(power, 0.3)
        rising = self.floor * 1.02
        torch.minimum(rising, self.smooth, out=self.floor)
        ratio = (power / (self.floor + 1e-6) - 1).clamp(min=0)
        self.gain.mul_(0.7).add_(0.3 * ratio / (1 + ratio))
        frame = torch.fft.irfft(spectrum * self.gain, n=FRAME) * self.window
        self.accumulator.add_(frame)
        self.output.copy_(self.accumulator[:, :HOP])
        self.accumulator.copy_(torch.nn.functional.pad(self.accumulator[:, HOP:], (0, HOP)))
        return self.output

    def listen(self, args, kwargs, k):
        t = torch.arange(HOP) + HOP * k
        self.input.copy_(torch.sin(t * 0.05) * (k % 20 < 10) + 0.2 * torch.randn(2, HOP))


def build(device):
    suppressor = Suppressor(device)
    return graphsafe.Step(suppressor.step, (), {}, refresh=suppressor.listen)
