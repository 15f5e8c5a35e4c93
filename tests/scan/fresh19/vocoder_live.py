import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HOP = 8
CHUNK = 6


class CausalStack(nn.Module):
    """Mel frames in, waveform samples out; keeps the left context between chunks."""

    def __init__(self, mels=10, channels=12, taps=3):
        super().__init__()
        self.taps = taps
        self.pre = nn.Conv1d(mels, channels, taps)
        self.up = nn.ConvTranspose1d(channels, 1, HOP, stride=HOP)
        self.register_buffer("left", torch.zeros(1, mels, taps - 1))

    def forward(self, mel):
        joined = torch.cat([self.left, mel], dim=2)
        self.left = joined[:, :, -(self.taps - 1):]
        return torch.tanh(self.up(F.leaky_relu(self.pre(joined), 0.1)))


class LiveVocoder:
    def __init__(self, net, device):
        self.net = net
        self.device = device
        self.lane = torch.cuda.Stream(device)
        self.mel_in = torch.zeros(1, 10, CHUNK, device=device)
        self.gain = torch.ones((), device=device)
        self.host_mel = torch.zeros(1, 10, CHUNK).pin_memory()
        self._record()

    @torch.inference_mode()
    def _record(self):
        self.lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.lane):
            self.net(self.mel_in)
        torch.cuda.current_stream().wait_stream(self.lane)
        self.net.left.zero_()
        self.g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.g, stream=self.lane):
            self.wave = self.net(self.mel_in) * self.gain

    def set_volume(self, db):
        self.gain = torch.full((), 10 ** (db / 20), device=self.device)

    def push(self, frames):
        self.host_mel.numpy()[0] = frames
        self.mel_in.copy_(self.host_mel, non_blocking=True)
        self.g.replay()
        return self.wave.clone()


def speak(vocoder, utterance):
    frames = utterance.shape[1]
    utterance = np.pad(utterance, ((0, 0), (0, -frames % CHUNK)))
    pieces = []
    for start in range(0, utterance.shape[1], CHUNK):
        pieces.append(vocoder.push(utterance[:, start : start + CHUNK]).flatten())
    return torch.cat(pieces)[: frames * HOP]


def main():
    device = torch.device("cuda")
    torch.manual_seed(1)
    rng = np.random.default_rng(0)
    vocoder = LiveVocoder(CausalStack().to(device).eval(), device)
    spoken = []
    for n, db in ((18, 0.0), (21, -6.0), (15, -12.0)):
        vocoder.set_volume(db)
        spoken.append(speak(vocoder, rng.standard_normal((10, n)).astype("float32")))
    loud = torch.stack([w.square().mean().sqrt() for w in spoken])
    print([w.numel() for w in spoken], loud.tolist())


if __name__ == "__main__":
    main()
