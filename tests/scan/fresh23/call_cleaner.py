"""Echo canceller for several calls at once: frequency-domain adaptive filter plus a small gain network."""
import argparse
import collections

import torch
from torch import nn

BLOCK = 32
Packet = collections.namedtuple("Packet", "far near")


class Gain(nn.Module):
    def __init__(self, bins, width=24):
        super().__init__()
        self.cell = nn.GRUCell(2 * bins, width)
        self.out = nn.Linear(width, bins)

    def forward(self, far_mag, err_mag, h):
        h = self.cell(torch.cat([far_mag, err_mag], -1).log1p(), h)
        return self.out(h).sigmoid(), h


class Canceller(nn.Module):
    def __init__(self, calls, taps=4, mu=0.3):
        super().__init__()
        bins = BLOCK + 1
        self.taps, self.mu = taps, mu
        self.gain = Gain(bins)
        zeros = torch.zeros
        self.register_buffer("weights", zeros(calls, taps, bins, 2))
        self.register_buffer("spectra", zeros(calls, taps, bins, 2))
        self.register_buffer("power", torch.ones(calls, bins))
        self.register_buffer("far_old", zeros(calls, BLOCK))
        self.register_buffer("hidden", zeros(calls, 24))
        self.register_buffer("keep", torch.ones(calls, 1))

    def state(self):
        return [self.weights, self.spectra, self.power, self.far_old, self.hidden]

    @torch.no_grad()
    def forward(self, far, near):
        spectrum = torch.view_as_real(torch.fft.rfft(torch.cat([self.far_old, far], 1)))
        self.far_old.copy_(far)
        self.spectra.copy_(torch.cat([spectrum[:, None], self.spectra[:, :-1]], 1))
        x = torch.view_as_complex(self.spectra)
        w = torch.view_as_complex(self.weights)
        echo = torch.fft.irfft((x * w).sum(1), n=2 * BLOCK)[:, BLOCK:]
        err = near - echo
        err_spec = torch.fft.rfft(torch.nn.functional.pad(err, (BLOCK, 0)))
        self.power.lerp_(x.abs().square().sum(1), 0.2)
        w.add_(self.mu * x.conj() * (err_spec / (self.power + 1e-3))[:, None])
        mask, h = self.gain(spectrum.norm(dim=-1), err_spec.abs(), self.hidden)
        self.hidden.copy_(h * self.keep)
        return torch.fft.irfft(err_spec * mask, n=2 * BLOCK)[:, BLOCK:].clone()


class Ring:
    """Pinned memory for a few blocks in flight; a slot is written again only after its last copy."""

    def __init__(self, shape, depth):
        self.slots = [torch.zeros(shape).pin_memory() for _ in range(depth)]
        self.marks = [torch.cuda.Event() for _ in range(depth)]
        self.head = 0

    def take(self):
        i = self.head
        self.head = (i + 1) % len(self.slots)
        self.marks[i].synchronize()
        return self.slots[i], self.marks[i]


class Room:
    def __init__(self, calls, device):
        self.net = Canceller(calls).to(device).eval()
        self.device = device
        self.far = torch.zeros(calls, BLOCK, device=device)
        self.near = torch.zeros(calls, BLOCK, device=device)
        self.up = Ring((2, calls, BLOCK), depth=3)
        self.down = Ring((calls, BLOCK), depth=3)
        self.stream = torch.cuda.Stream(device)
        self.waiting = collections.deque()
        self.stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.net(self.far, self.near)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.out = self.net(self.far, self.near)
        self.reset()

    def reset(self):
        with torch.cuda.stream(self.stream):
            for buf in self.net.state():
                buf.zero_()
            self.net.power.fill_(1.0)

    def submit(self, packet):
        host, mark = self.up.take()
        host[0].copy_(packet.far)
        host[1].copy_(packet.near)
        with torch.cuda.stream(self.stream):
            self.far.copy_(host[0], non_blocking=True)
            self.near.copy_(host[1], non_blocking=True)
            mark.record(self.stream)
            self.graph.replay()
            block, ready = self.down.take()
            block.copy_(self.out, non_blocking=True)
            ready.record(self.stream)
        self.waiting.append((block, ready))

    def collect(self, leave=1):
        while len(self.waiting) > leave:
            block, ready = self.waiting.popleft()
            ready.synchronize()
            yield block.clone()


def packets(calls, blocks, seed):
    gen = torch.Generator().manual_seed(seed)
    for _ in range(blocks):
        far = torch.randn(calls, BLOCK, generator=gen)
        yield Packet(far, 0.5 * far.roll(3, dims=1) + 0.05 * torch.randn(calls, BLOCK, generator=gen))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    device = torch.device(parser.parse_args().device)
    torch.manual_seed(0)
    room = Room(3, device)
    for call in range(3):
        cleaned = []
        for packet in packets(3, 10, call):
            room.submit(packet)
            cleaned.extend(room.collect())
        cleaned.extend(room.collect(leave=0))
        print(call, len(cleaned), round(torch.stack(cleaned).square().mean().item(), 5))
        room.reset()


if __name__ == "__main__":
    main()
