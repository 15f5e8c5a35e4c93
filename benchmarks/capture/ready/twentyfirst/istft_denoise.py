"""Speech enhancement: STFT, mask, inverse STFT."""
import torch
import torch.nn as nn

import graphsafe


class Enhancer(nn.Module):
    def __init__(self, n_fft=64, hop=16, hidden=32):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        bins = n_fft // 2 + 1
        self.net = nn.Sequential(nn.Conv1d(bins, hidden, 3, padding=1), nn.PReLU(), nn.Conv1d(hidden, bins, 3, padding=1))

    def forward(self, wav):
        spec = torch.stft(wav, self.n_fft, self.hop, window=self.window, center=True, return_complex=True)
        mag = spec.abs()
        mask = torch.sigmoid(self.net(torch.log1p(mag)))
        return torch.istft(spec * mask, self.n_fft, self.hop, window=self.window, center=True, length=wav.shape[-1])


def build(device):
    torch.manual_seed(13)
    model = Enhancer().to(device).eval().requires_grad_(False)
    wav = torch.randn(2, 512, device=device) * 0.1
    return model, (wav,)
