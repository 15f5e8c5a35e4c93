import torch
from torch import nn


class CallState:
    """Overlap and hidden state of each call; the last slot belongs to padding rows."""

    def __init__(self, calls, frame, hidden, device):
        self.past = torch.zeros(calls + 1, frame, device=device)
        self.tail = torch.zeros(calls + 1, frame, device=device)
        self.hidden = torch.zeros(calls + 1, hidden, device=device)
        self.scratch = calls

    def open(self, slot):
        for table in (self.past, self.tail, self.hidden):
            table[slot].zero_()


class Denoiser(nn.Module):
    """Spectral mask over frames with half overlap; one hop of audio in, one hop out."""

    def __init__(self, hop=64, hidden=24):
        super().__init__()
        self.hop = hop
        bins = hop + 1
        self.register_buffer("window", torch.hann_window(2 * hop).sqrt())
        self.cell = nn.GRUCell(bins, hidden)
        self.mask = nn.Linear(hidden, bins)

    def forward(self, audio, slots, floor, state):
        frame = torch.cat([state.past[slots], audio], dim=-1) * self.window
        spectrum = torch.fft.rfft(frame)
        hidden = self.cell(spectrum.abs().log1p(), state.hidden[slots])
        gain = torch.maximum(torch.sigmoid(self.mask(hidden)), floor.unsqueeze(-1))
        clean = torch.fft.irfft(spectrum * gain, n=2 * self.hop) * self.window
        out = state.tail[slots] + clean[:, : self.hop]
        state.past.index_copy_(0, slots, audio)
        state.tail.index_copy_(0, slots, clean[:, self.hop :])
        state.hidden.index_copy_(0, slots, hidden)
        return out
