import math
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn


def build_ragged_gru(device):
    torch.manual_seed(51)
    cell = nn.GRUCell(10, 20).to(device).requires_grad_(False)
    score = nn.Linear(20, 1).to(device).requires_grad_(False)
    head = nn.Linear(40, 5).to(device).requires_grad_(False)

    def run(frames):
        h = frames[0].new_zeros(frames[0].shape[0], 20)
        states = []
        for frame in frames:
            h = cell(frame, h)
            states.append(h)
        return states

    def step(frames, lengths):
        states = run([f * 0.5 for f in frames])
        stacked = torch.stack(states, 1)
        attention = score(torch.tanh(stacked)).squeeze(-1).softmax(-1)
        pooled = (stacked * attention[..., None]).sum(1)
        last = torch.stack([states[n - 1][b] for b, n in enumerate(lengths.tolist())])
        logits = head(torch.cat([pooled, last], -1))
        return logits.log_softmax(-1), attention, [s.mean() for s in states[-2:]]

    frames = [torch.randn(4, 10, device=device) for _ in range(4)]
    lengths = torch.tensor([4, 2, 3, 2], device=device)
    return step, (frames, lengths)


class PonderCell(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gate = nn.Linear(2 * dim, 2 * dim)
        self.cand = nn.Linear(dim, dim)
        self.halt = nn.Linear(dim, 1)

    def forward(self, x, h):
        z, r = self.gate(torch.cat([x, h], -1)).sigmoid().chunk(2, -1)
        new = torch.tanh(self.cand(x + r * h))
        h = h + z * (new - h)
        return h, (self.halt(h) + 0.4).sigmoid().squeeze(-1)


class Ponder(nn.Module):
    def __init__(self, dim, most):
        super().__init__()
        self.most = most
        self.cell = PonderCell(dim)
        self.read = nn.Linear(dim, dim)

    def forward(self, x):
        h = torch.zeros_like(x)
        budget = x.new_ones(x.shape[0])
        mixed = torch.zeros_like(x)
        n = 0
        while True:
            h, p = self.cell(x, h)
            weight = budget * p
            mixed = mixed + weight[:, None] * h
            budget = budget - weight
            n += 1
            if n >= self.most or budget.max() < 0.2:
                break
        y = self.read(mixed + budget[:, None] * h)
        return F.layer_norm(y + x, (x.shape[-1],)), n


def build_ponder_net(device):
    torch.manual_seed(52)
    model = Ponder(16, 3).to(device).eval().requires_grad_(False)
    return model, (torch.randn(5, 16, device=device),)


@dataclass
class SpeechFeatures:
    mel: torch.Tensor
    delta: torch.Tensor
    centre: torch.Tensor
    spread: torch.Tensor


def build_voiced_mel(device):
    torch.manual_seed(53)
    size, hop, bands = 128, 64, 12
    window = torch.hann_window(size, device=device)
    bank = torch.rand(size // 2 + 1, bands, device=device)
    bank = bank / bank.sum(0)

    def frames_of(wave):
        wave = wave - wave.mean()
        wave = torch.cat([wave[:1], wave[1:] - 0.97 * wave[:-1]])
        return wave.unfold(0, size, hop) * window

    def step(wave):
        frames = frames_of(wave)
        energy = frames.pow(2).mean(-1).clamp_min(1e-8).log()
        spectrum = torch.fft.rfft(frames)
        power = spectrum.real.pow(2) + spectrum.imag.pow(2)
        mel = (power @ bank).clamp_min(1e-6).log()
        delta = F.pad(mel[2:] - mel[:-2], (0, 0, 1, 1)) * 0.5
        floor = energy.mean() - 0.1 * energy.std()
        voiced = energy > floor
        chosen = mel[voiced]
        centre = chosen.mean(0)
        spread = chosen.std(0, unbiased=False)
        flat = (mel - centre) / (spread + 1e-3)
        delta = delta - delta.mean(0)
        smooth = F.avg_pool1d(flat.t()[None], 3, stride=1, padding=1)[0].t()
        return SpeechFeatures(smooth, delta, centre, spread)

    return step, (torch.randn(1024, device=device),)


def build_pitch_comb(device):
    torch.manual_seed(54)
    low, high = 16, 80
    window = torch.hann_window(512, device=device)
    taper = torch.linspace(1.0, 0.8, high - low, device=device)
    mix = torch.randn(3, 3, device=device) * 0.2 + torch.eye(3, device=device)

    def step(wave, strength=0.6):
        centred = wave - wave.mean(-1, keepdim=True)
        framed = centred * window
        spec = torch.fft.rfft(framed, n=1024)
        power = spec.real.square() + spec.imag.square()
        auto = torch.fft.irfft(power, n=1024)[:, : high]
        auto = auto / auto[:, :1].clamp_min(1e-6)
        pooled = auto.mean(0)
        weighted = pooled[low:] * taper
        clarity = weighted.max() / (weighted.abs().mean() + 1e-6)
        lag = int(weighted.argmax()) + low
        delayed = torch.roll(centred, lag, -1)
        comb = (1 - strength) * centred + strength * delayed
        mixed = mix @ comb
        envelope = F.avg_pool1d(mixed.abs()[None], 16, stride=8)[0]
        onset = torch.relu(envelope[:, 1:] - envelope[:, :-1])
        ratio = mixed.square().sum(-1) / centred.square().sum(-1).clamp_min(1e-6)
        flux = onset.sum(0)
        flux = flux / flux.max().clamp_min(1e-6)
        return mixed, {"lag": lag, "clarity": clarity, "flux": flux, "ratio": ratio}

    return step, (torch.randn(3, 512, device=device),)


class Leveller:
    def __init__(self, device, target):
        self.target = target
        self.kernel = torch.hann_window(31, device=device)[None, None]
        self.kernel = self.kernel / self.kernel.sum()
        self.previous: Optional[torch.Tensor] = torch.zeros(2, 400, device=device)

    def gain(self, wave):
        try:
            return self.target / float(wave.abs().max())
        except ZeroDivisionError:
            return 1.0

    def compress(self, wave):
        level = F.conv1d(wave.abs()[:, None], self.kernel, padding=15)[:, 0]
        over = (level / 0.3).clamp_min(1.0).log2()
        return wave * torch.exp2(-0.5 * over)

    def __call__(self, wave):
        with torch.no_grad():
            wave = wave - wave.mean(-1, keepdim=True)
            wave = torch.tanh(wave * 0.8)
            gain = self.gain(wave)
            loud = wave * gain
            out = self.compress(loud)
            mid, side = out.sum(0) * math.sqrt(0.5), (out[0] - out[1]) * math.sqrt(0.5)
            side = side * (1 + 0.2 * torch.tanh(mid.std() - side.std()))
            wide = torch.stack([mid + side, mid - side]) * math.sqrt(0.5)
            blended = 0.9 * wide + 0.1 * self.previous
            self.previous.copy_(blended)
            wave_power = blended.pow(2).mean(-1).clamp_min(1e-8)
            return blended, 10 * wave_power.log10()


def build_leveller(device):
    torch.manual_seed(55)
    return Leveller(device, 0.9), (torch.randn(2, 400, device=device),)
