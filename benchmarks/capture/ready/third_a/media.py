"""Image and audio steps: augmentation, tone mapping, feature extraction."""
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm


class Augment:
    def __init__(self, flip=0.08, noise=0.1):
        self.flip, self.noise = flip, noise

    def __call__(self, images):
        if np.random.rand() < self.flip:
            images = images.flip(-1)
        return images + self.noise * torch.randn_like(images)


def build_augmented_embedding(device):
    augment, net = Augment(), torch.nn.Linear(3 * 8 * 8, 16).to(device)

    @torch.no_grad()
    def step(images):
        return F.normalize(net(augment(images).flatten(1)), dim=-1)

    return step, (torch.randn(4, 3, 8, 8, device=device),)


def build_spec_augment(device):
    mel = torch.rand(33, 20, device=device)

    def step(power):
        spec = torch.log1p(power @ mel)
        for band in random.sample(range(spec.shape[-1]), 3):
            spec[:, band] = 0.0
        return spec.mean(0), spec.amax(0)

    return step, (torch.rand(15, 33, device=device) * 5,)


class Tone:
    def __init__(self):
        self.gamma = torch.tensor(2.2)
        self.gains = torch.tensor([1.1, 0.9, 1.3])


class Settings:
    def __init__(self, device):
        self.tone = Tone()
        self.matrix = torch.eye(3, device=device) + 0.1 * torch.randn(3, 3, device=device)


def build_tone_mapping(device):
    def develop(raw, settings):
        balanced = torch.stack([plane * gain for plane, gain in zip(raw, settings.tone.gains)])
        rgb = torch.einsum("ij,jhw->ihw", settings.matrix, balanced)
        return rgb.clamp_min(1e-3) ** (1 / settings.tone.gamma)

    return develop, (torch.rand(3, 12, 12, device=device), Settings(device))


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8, momentum=None)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x))).mean((2, 3)), self.norm.running_mean.clone()


def build_recalibrated_encoder(device):
    encoder = Encoder().to(device).train().requires_grad_(False)
    return encoder, (torch.randn(4, 3, 8, 8, device=device),)


class AudioFeed:
    def __init__(self, length, device):
        self.host = torch.empty(length, pin_memory=device.type == "cuda")
        self.device = torch.zeros(length, device=device)

    def push(self, samples):
        view = self.host.numpy()
        np.multiply(samples, 1.0 / 32768.0, out=view, casting="unsafe")
        self.device.copy_(self.host, non_blocking=True)
        return self.device


def build_pcm_features(device):
    feed, window = AudioFeed(256, device), torch.hann_window(64, device=device)

    def step(samples):
        frames = feed.push(samples).unfold(0, 64, 32) * window
        return frames.square().mean(-1).add(1e-8).log(), frames.abs().amax(-1)

    return step, (np.random.randint(-32768, 32767, 256).astype(np.int16),)


class MaskedPool:
    def __init__(self):
        self.masks = {}

    def mask(self, lengths, frames):
        key = lengths.shape[0], frames
        if key not in self.masks:
            self.masks[key] = torch.arange(frames, device=lengths.device)[None] < lengths[:, None]
        return self.masks[key]

    def __call__(self, features, lengths):
        mask = self.mask(lengths, features.shape[1]).unsqueeze(-1)
        total = (features * mask).sum(1)
        return total / mask.sum(1).clamp_min(1)


def build_utterance_pool(device):
    lengths = torch.tensor([3, 12, 7, 9, 5], device=device)
    return MaskedPool(), (torch.randn(5, 12, 6, device=device), lengths)


def centred(module, inputs, output):
    return output - 0.1 * output.mean(-1, keepdim=True)


class Probe:
    def __init__(self, net, limit=24):
        self.net, self.limit, self.seen = net, limit, []

    def __call__(self, x):
        layer = self.net[0]
        if len(layer._forward_hooks) < self.limit:
            layer.register_forward_hook(centred)
        return self.net(x)


def build_probed_classifier(device):
    net = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(device)
    return Probe(net.requires_grad_(False)), (torch.randn(6, 10, device=device) + 1.0,)


class Upload:
    def __init__(self, like, device):
        self.staged = torch.zeros(like.shape, device=device)

    def __call__(self, waveform, gain):
        self.staged.copy_(waveform, non_blocking=True)
        return torch.tanh(self.staged * gain), self.staged.unfold(0, 32, 16).std(-1)


def build_waveform_upload(device):
    waveform = torch.randn(256)
    if device.type == "cuda":
        waveform = waveform.pin_memory()
    return Upload(waveform, device), (waveform, torch.tensor(1.5, device=device))


def build_spectral_critic(device):
    net = torch.nn.Sequential(spectral_norm(torch.nn.Linear(12, 16)), torch.nn.LeakyReLU(0.2), spectral_norm(torch.nn.Linear(16, 1)))
    net = net.to(device).train()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)

    def step(real, fake):
        opt.zero_grad(set_to_none=True)
        loss = F.softplus(-net(real)).mean() + F.softplus(net(fake)).mean()
        loss.backward()
        opt.step()
        return loss.detach(), net[0].weight.detach().norm()

    return step, (torch.randn(8, 12, device=device), torch.randn(8, 12, device=device))


def build_feature_tap(device):
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.SiLU(), torch.nn.Conv2d(8, 4, 3, stride=2))
    net = net.to(device).requires_grad_(False).to(memory_format=torch.channels_last)

    def step(images):
        taps = []
        handle = net[1].register_forward_hook(lambda module, inputs, output: taps.append(output))
        try:
            out = net(images.contiguous(memory_format=torch.channels_last))
        finally:
            handle.remove()
        return out.mean((2, 3)), taps[-1].flatten(2).std(-1)

    return step, (torch.randn(2, 3, 10, 10, device=device),)
