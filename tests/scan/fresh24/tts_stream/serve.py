import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tts_stream.buckets import GraphBuckets  # noqa: E402
from tts_stream.transfer import AudioDownloader, MelUploader  # noqa: E402
from tts_stream.vocoder import Vocoder, Voice  # noqa: E402


@dataclass
class Chunk:
    mel: torch.Tensor
    speaker: int = 0
    noise_scale: float = 0.1


class Synthesizer:
    def __init__(self, device, mels=20):
        torch.manual_seed(6)
        self.vocoder = Vocoder(mels).to(device).eval().requires_grad_(False)
        self.voice = Voice(4, 8, device)
        self.buckets = GraphBuckets(self.vocoder, self.voice, mels, device)
        self.uploader = MelUploader(mels, GraphBuckets.LENGTHS, device)
        self.downloader = AudioDownloader(GraphBuckets.LENGTHS[-1] * Vocoder.HOP)

    @torch.inference_mode()
    def synthesize(self, chunk):
        frames = chunk.mel.shape[-1]
        self.voice.select(chunk.speaker)
        entry = self.buckets.get(frames, chunk.noise_scale)
        self.uploader.send(chunk.mel, entry.mel)
        entry.graph.replay()
        return self.downloader.fetch(entry.audio[0, : frames * Vocoder.HOP])


def traffic(count):
    gen = torch.Generator().manual_seed(0)
    for k in range(count):
        frames = int(torch.randint(5, 33, (1,), generator=gen))
        mel = torch.randn(20, frames, generator=gen)
        yield Chunk(mel, speaker=k % 3, noise_scale=0.1 if k % 2 else 0.4)


def main():
    device = torch.device("cuda", 0)
    synthesizer = Synthesizer(device)
    pending = deque(traffic(12))
    seconds = 0.0
    while pending:
        audio = synthesizer.synthesize(pending.popleft())
        seconds += audio.shape[0] / 16000
    print(f"{seconds:.3f} s of audio")


if __name__ == "__main__":
    main()
