"""An audio effect chain; the gain follows a fade that the host plans."""

import torch


class Effect:
    def process(self, block):
        raise NotImplementedError


class Gain(Effect):
    def __init__(self, level):
        self.level = level

    def process(self, block):
        return block * self.level


class SoftClip(Effect):
    def __init__(self, drive):
        self.drive = drive

    def process(self, block):
        return torch.tanh(block * self.drive)


class Chain:
    def __init__(self, effects, block_size, device):
        self.effects = effects
        self.block = torch.zeros(2, block_size, device=device)
        self.device = device
        self._graph = None
        self._mixed = None

    def _process(self):
        signal = self.block
        for effect in self.effects:
            signal = effect.process(signal)
        return signal

    def prepare(self):
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._process()
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=stream):
            self._mixed = self._process()

    def render(self, block):
        self.block.copy_(block)
        self._graph.replay()
        return self._mixed.clone()


def fade(blocks):
    return [1.0 - index / blocks for index in range(blocks)]


def main():
    device = torch.device("cuda")
    gain = Gain(1.0)
    chain = Chain([gain, SoftClip(1.5)], 64, device)
    chain.prepare()
    rendered = []
    for level in fade(5):
        gain.level = level
        rendered.append(chain.render(torch.randn(2, 64, device=device)))
    print(torch.cat(rendered, dim=1).shape)


if __name__ == "__main__":
    main()
