"""Text-to-speech back end: mel frames in, audio out. Upload, synthesis and download overlap on three streams."""
import itertools

import numpy as np
import torch
from torch import nn

MEL, HOP, FRAMES = 20, 16, 12


class ResBlock(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.conv = nn.Conv1d(ch, ch, 3, padding=dilation, dilation=dilation)

    def forward(self, x):
        return x + self.conv(nn.functional.leaky_relu(x, 0.1))


class Vocoder(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.pre = nn.Conv1d(MEL + 1, ch, 5, padding=2)
        self.up = nn.ConvTranspose1d(ch, ch // 2, HOP, stride=HOP)
        self.blocks = nn.Sequential(*(ResBlock(ch // 2, d) for d in (1, 3)))
        self.post = nn.Conv1d(ch // 2, 1, 7, padding=3)

    def forward(self, mel):
        noise = torch.randn(mel.shape[0], 1, mel.shape[2], device=mel.device, dtype=mel.dtype)
        x = self.up(self.pre(torch.cat((mel, noise), 1)))
        return torch.tanh(self.post(self.blocks(x)))


class Synthesiser:
    def __init__(self, net, device, seed=1234):
        self.net, self.device, self.seed = net, torch.device(device), seed
        self.mel = torch.zeros(1, MEL, FRAMES, device=device)
        self.upload = torch.cuda.Stream(self.device)
        self.compute = torch.cuda.Stream(self.device)
        self.download = torch.cuda.Stream(self.device)
        self.ready = torch.cuda.Event()
        self.pcm = torch.zeros(1, 1, FRAMES * HOP).pin_memory()
        with torch.cuda.stream(self.compute):
            self.compute.wait_stream(torch.cuda.default_stream(self.device))
            for _ in range(2):
                net(self.mel)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.compute):
            self.audio = net(self.mel)

    def feed(self, host_mel):
        with torch.cuda.stream(self.upload):
            self.mel.copy_(host_mel, non_blocking=True)

    def render(self):
        torch.cuda.manual_seed(self.seed)
        with torch.cuda.stream(self.compute):
            self.compute.wait_stream(self.download)
            self.graph.replay()
            self.ready.record(self.compute)

    def collect(self):
        with torch.cuda.stream(self.download):
            self.download.wait_event(self.ready)
            self.pcm.copy_(self.audio, non_blocking=True)
        return self.pcm.numpy()[0, 0].copy()


def frames(text, seed):
    gen = torch.Generator().manual_seed(seed)
    for _ in text:
        yield torch.randn(1, MEL, FRAMES, generator=gen).pin_memory()


def write_wave(samples):
    level = float(np.sqrt(np.mean(np.square(samples)))) if len(samples) else 0.0
    return (np.clip(samples, -1, 1) * 32767).astype(np.int16), level


@torch.inference_mode()
def main(device="cuda"):
    torch.manual_seed(8)
    synth = Synthesiser(Vocoder().to(device).eval(), device)
    for number, sentence in zip(itertools.count(), ("hello", "graphs", "again")):
        pieces = []
        chunks = list(frames(sentence, number))
        for mel in chunks:
            synth.feed(mel)
            synth.render()
            pieces.append(synth.collect())
        wave, level = write_wave(np.concatenate(pieces))
        print(number, wave.shape, round(level, 4))
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
