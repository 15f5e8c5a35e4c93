"""Speech enhancement between a microphone and a loudspeaker: blocks go through one pinned buffer to a graph."""

import math
from collections import deque

import torch
import torch.nn as nn

BLOCK, WIDTH = 160, 32


class Enhancer(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(2 * BLOCK, WIDTH)
        self.gain = nn.Linear(WIDTH, BLOCK)
        self.mix = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, block, past, memory):
        both = torch.cat([past, block], -1)
        hidden = torch.tanh(self.mix(torch.cat([self.enter(both), memory], -1)))
        return block * self.gain(hidden).sigmoid(), hidden


class Microphone:
    """Yields blocks of samples, as the callback of an audio library hands them over."""

    def __init__(self, calls, blocks):
        self.calls = calls
        self.blocks = blocks

    def call(self, number):
        for index in range(self.blocks):
            time = torch.arange(BLOCK) / 16000 + index * 0.01
            yield torch.sin(2 * math.pi * (200 + 40 * number) * time) + 0.1 * torch.randn(BLOCK)


class Bridge:
    def __init__(self, net, held=4):
        self.net = net
        self.staging = torch.zeros(BLOCK).pin_memory()
        self.block = torch.zeros(BLOCK, device="cuda")
        self.past = torch.zeros(BLOCK, device="cuda")
        self.memory = torch.zeros(WIDTH, device="cuda")
        self.recent = deque(maxlen=held)
        self.graph = None

    def step(self):
        clean, hidden = self.net(self.block, self.past, self.memory)
        self.past.copy_(self.block)
        self.memory.copy_(hidden)
        return clean

    def open(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.clean = self.step()

    def begin_call(self):
        self.recent.clear()
        self.past.zero_()
        self.memory = torch.zeros(WIDTH, device="cuda")

    def feed(self, samples):
        self.staging.copy_(samples)
        self.block.copy_(self.staging, non_blocking=True)
        self.graph.replay()
        self.recent.append(self.clean)
        return torch.stack(list(self.recent)).mean(0)


@torch.inference_mode()
def main():
    torch.manual_seed(16)
    bridge = Bridge(Enhancer().cuda().eval())
    bridge.open()
    microphone = Microphone(calls=2, blocks=20)
    spoken = torch.zeros(microphone.calls, microphone.blocks, BLOCK, device="cuda")
    for call in range(microphone.calls):
        bridge.begin_call()
        for index, samples in enumerate(microphone.call(call)):
            spoken[call, index].copy_(bridge.feed(samples))
    torch.save(spoken, "spoken.pt")


if __name__ == "__main__":
    main()
