"""Steps of torchaudio: features, filters and small acoustic models."""

import torch
from torch import nn


def wave(device, batch=2, samples=4000):
    return torch.randn(batch, samples, device=device)


def mel_spectrogram(device):
    from torchaudio.transforms import AmplitudeToDB, MelSpectrogram

    return nn.Sequential(MelSpectrogram(16000, n_fft=400, n_mels=20), AmplitudeToDB()).to(device), (wave(device),)


def resampling(device):
    from torchaudio.transforms import Resample

    return Resample(16000, 8000).to(device), (wave(device),)


def band_filter(device):
    from torchaudio.functional import bandpass_biquad

    return (lambda samples: bandpass_biquad(samples, 16000, 1000.0)), (wave(device, samples=400),)


def masked_spectrogram(device):
    from torchaudio.transforms import FrequencyMasking, TimeMasking

    return nn.Sequential(FrequencyMasking(6), TimeMasking(10)), (torch.randn(2, 20, 50, device=device),)


def conformer(device):
    from torchaudio.models import Conformer

    model = Conformer(20, 2, 32, 2, 5).to(device).eval()

    @torch.no_grad()
    def step(frames, lengths):
        return model(frames, lengths)[0]

    return step, (torch.randn(2, 30, 20, device=device), torch.tensor([30, 24], device=device))


def change_frames(args, kwargs, k):
    args[0].normal_()
    args[1][1] = 20 + k


CHANGE = {"conformer": change_frames}
