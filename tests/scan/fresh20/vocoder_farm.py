"""Text-to-speech back end: mel frames in, waveform out, one graph per speaker style."""
import random

import torch
import torch.nn.functional as F
from torch import nn

HOP = 8


class Vocoder(nn.Module):
    def __init__(self, mels=12, width=16):
        super().__init__()
        self.pre = nn.Conv1d(mels, width, 3, padding=1)
        self.ups = nn.ModuleList(nn.ConvTranspose1d(width, width, 4, 2, 1) for _ in range(3))
        self.post = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, mel, speaker):
        h = self.pre(mel) + speaker[:, :, None]
        for up in self.ups:
            h = F.leaky_relu(up(h), 0.1)
        return torch.tanh(self.post(h)).squeeze(1)


class Voice:
    def __init__(self, net, frames, device, pitch=1.0):
        self.net = net
        self.buffers = {
            "mel": torch.zeros(1, 12, frames, device=device),
            "speaker": torch.zeros(1, 16, device=device),
            "dc": torch.zeros(1, device=device),
        }
        self.pitch = pitch
        self.graph, self.wave = None, None

    def _synth(self):
        b = self.buffers
        wave = self.net(b["mel"] * self.pitch, b["speaker"])
        dither = (random.random() - 0.5) / 32768
        return wave + b["dc"] + dither

    def warm_and_record(self):
        lane = torch.cuda.Stream()
        lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane):
            self._synth(), self._synth()
        torch.cuda.current_stream().wait_stream(lane)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=lane):
            self.wave = self._synth()
        self.graph = graph

    def say(self, mel, speaker):
        n = mel.shape[-1]
        self.buffers["mel"] = F.pad(mel, (0, self.buffers["mel"].shape[-1] - n))
        self.buffers["speaker"].copy_(speaker)
        self.graph.replay()
        return self.wave[:, : n * HOP]


class Farm:
    def __init__(self, device):
        self.device = device
        self.net = Vocoder().to(device).eval()
        self.voices = {}

    def voice(self, name, pitch):
        if name not in self.voices:
            self.voices[name] = Voice(self.net, 32, self.device, pitch)
            self.voices[name].warm_and_record()
        chosen = self.voices[name]
        chosen.pitch = pitch
        return chosen

    def stream(self, script):
        for name, pitch, mel in script:
            yield self.voice(name, pitch).say(mel, torch.full((1, 16), 0.1 * len(name), device=self.device))


@torch.inference_mode()
def main(device="cuda"):
    random.seed(0)
    torch.manual_seed(0)
    farm = Farm(torch.device(device))
    gen = torch.Generator(device=device).manual_seed(9)
    script = []
    for i in range(10):
        mel = torch.randn(1, 12, 10 + 2 * i, device=device, generator=gen)
        script.append((("ana", "bo")[i % 2], 1.0 + 0.05 * (i // 4), mel))
    pieces = list(farm.stream(script))
    audio = torch.cat(pieces, dim=1)
    print(audio.shape, audio.std().item())


if __name__ == "__main__":
    main()
