"""Streaming vocoder: turns acoustic token blocks into audio, one block per graph replay."""
import dataclasses

import torch
from torch import nn


@dataclasses.dataclass
class Utterance:
    voice: str
    expressiveness: float
    blocks: list


class Vocoder(nn.Module):
    def __init__(self, vocab=64, width=48, hop=80):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.mix = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, hop)

    def forward(self, ids, voice, gain):
        h = self.tokens(ids)
        h = torch.tanh(self.mix(torch.cat([h, voice.expand_as(h)], dim=-1)))
        return torch.tanh(self.head(h * gain)).flatten()


class VoiceBank:
    def __init__(self, device, width=48):
        gen = torch.Generator().manual_seed(11)
        self._table = {
            name: torch.randn(width, generator=gen).to(device)
            for name in ("ada", "brook", "cleo")
        }

    def __getitem__(self, name):
        return self._table[name]


class BlockSynth:
    def __init__(self, model, bank, device, block=8):
        self.model = model.to(device).eval()
        self.bank = bank
        self.block = block
        self.ids = torch.zeros(block, dtype=torch.long, device=device)
        self.voice = bank["ada"]
        self.expressiveness = 1.0
        self.graph = None
        self.wave = None

    def _render(self):
        return self.model(self.ids, self.voice, self.expressiveness)

    @torch.no_grad()
    def prepare(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._render()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.wave = self._render()

    def open(self, utterance):
        self.voice = self.bank[utterance.voice]
        self.expressiveness = utterance.expressiveness

    def push(self, block):
        self.ids.copy_(block)
        self.graph.replay()
        return self.wave


def speak(synth, utterance):
    synth.open(utterance)
    chunks = []
    for block in utterance.blocks:
        chunks.append(synth.push(block))
    return torch.cat(chunks)


def main():
    device = torch.device("cuda")
    torch.manual_seed(0)
    bank = VoiceBank(device)
    synth = BlockSynth(Vocoder(), bank, device)
    synth.prepare()
    for voice, style in (("ada", 1.0), ("cleo", 1.6), ("brook", 0.7)):
        blocks = torch.randint(0, 64, (5, 8), device=device)
        audio = speak(synth, Utterance(voice, style, list(blocks)))
        print(voice, audio.numel(), f"{audio.abs().mean().item():.4f}")


if __name__ == "__main__":
    main()
