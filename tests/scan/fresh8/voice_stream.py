"""Streaming speech enhancement: one hop of audio in, one hop out, replayed."""
import wave

import numpy as np
import torch
from torch import nn


class Mask(nn.Module):
    def __init__(self, bins: int, hidden: int):
        super().__init__()
        self.cell = nn.GRUCell(bins, hidden)
        self.gate = nn.Linear(hidden, bins)

    def forward(self, magnitude, state):
        state = self.cell(torch.log1p(magnitude), state)
        return torch.sigmoid(self.gate(state)), state


class Enhancer:
    """Overlap-add with a window of `span` samples that moves by `hop`."""

    def __init__(self, mask: Mask, span: int = 512, hop: int = 128, seconds: float = 2.0):
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.mask = mask.to(self.device).eval()
        self.span, self.hop = span, hop
        self.room = int(seconds * 16000) // hop * hop
        self.stage = torch.zeros(hop, pin_memory=True)
        self.chunk = torch.zeros(hop, device=self.device)
        self.recent = torch.zeros(span, device=self.device)
        self.tail = torch.zeros(span, device=self.device)
        self.archive = torch.zeros(self.room, device=self.device)
        self.clean = torch.zeros(hop, device=self.device)
        self.window = torch.hann_window(span, device=self.device).sqrt()
        self.memory = torch.zeros(1, mask.cell.hidden_size, device=self.device)
        self.level = torch.zeros((), device=self.device)
        self.meter = torch.cuda.Stream()
        self.cursor = 0

    def _smooth(self, gains: torch.Tensor) -> torch.Tensor:
        taps = torch.tensor([0.25, 0.5, 0.25], device=gains.device)
        return nn.functional.conv1d(gains[None], taps[None, None], padding=1)[0]

    def _hop(self) -> None:
        self.archive[self.cursor : self.cursor + self.hop] = self.chunk
        self.cursor = (self.cursor + self.hop) % self.room
        self.recent.copy_(torch.cat([self.recent[self.hop :], self.chunk]))
        spectrum = torch.fft.rfft(self.recent * self.window)
        gains, state = self.mask(spectrum.abs()[None], self.memory)
        self.memory.copy_(state)
        with torch.cuda.stream(self.meter):
            self.level.copy_(self.chunk.abs().amax())
        frame = torch.fft.irfft(spectrum * self._smooth(gains)[0], n=self.span) * self.window
        self.tail.copy_(torch.cat([self.tail[self.hop :], self.tail.new_zeros(self.hop)]) + frame)
        self.clean.copy_(self.tail[: self.hop])

    @torch.no_grad()
    def arm(self) -> None:
        lane = torch.cuda.Stream()
        lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane):
            for _ in range(3):
                self._hop()
        torch.cuda.current_stream().wait_stream(lane)
        self.tape = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.tape, stream=lane):
            self._hop()

    def feed(self, samples: np.ndarray) -> torch.Tensor:
        self.stage.copy_(torch.from_numpy(samples))
        self.chunk.copy_(self.stage, non_blocking=True)
        self.tape.replay()
        return self.clean.clone()


def decibels(level: torch.Tensor) -> float:
    return float(20 * level.clamp_min(1e-6).log10())


def read_mono(path: str) -> np.ndarray:
    with wave.open(path, "rb") as handle:
        raw = np.frombuffer(handle.readframes(handle.getnframes()), dtype=np.int16)
    return raw.astype(np.float32) / 32768


def enhance_file(source: str, target: str) -> None:
    enhancer = Enhancer(Mask(257, 128))
    enhancer.arm()
    audio = read_mono(source)
    hops = [enhancer.feed(audio[i : i + enhancer.hop]) for i in range(0, len(audio) - enhancer.hop + 1, enhancer.hop)]
    result = (torch.cat(hops).clamp(-1, 1) * 32767).to(torch.int16).cpu().numpy()
    print(f"last level {decibels(enhancer.level):.1f} dB")
    with wave.open(target, "wb") as handle:
        handle.setnchannels(1)
        handle.setsampwidth(2)
        handle.setframerate(16000)
        handle.writeframes(result.tobytes())
