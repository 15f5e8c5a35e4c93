from dataclasses import dataclass

import torch


@dataclass
class Recorded:
    graph: torch.cuda.CUDAGraph
    mel: torch.Tensor
    audio: torch.Tensor


class GraphBuckets:
    LENGTHS = (8, 16, 32)

    def __init__(self, vocoder, voice, mels, device):
        self.vocoder, self.voice, self.mels, self.device = vocoder, voice, mels, device
        self.recorded = {}
        self.stream = torch.cuda.Stream(device)

    def padded(self, frames):
        return next(n for n in self.LENGTHS if n >= frames)

    def get(self, frames, noise_scale):
        length = self.padded(frames)
        if length not in self.recorded:
            self.recorded[length] = self.record(length, noise_scale)
        return self.recorded[length]

    @torch.inference_mode()
    def record(self, length, noise_scale):
        mel = torch.zeros(1, self.mels, length, device=self.device)
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            self.vocoder(mel, self.voice.embedding, noise_scale)
        current.wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            audio = self.vocoder(mel, self.voice.embedding, noise_scale)
        return Recorded(graph, mel, audio)
