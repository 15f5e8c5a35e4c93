"""Asyncio denoiser: one task per microphone, one captured step per channel layout."""
from __future__ import annotations

import asyncio
import dataclasses
from typing import AsyncIterator

import torch
from torch import nn


class GatedDenoiser(nn.Module):
    def __init__(self, hop: int, width: int = 48):
        super().__init__()
        self.inp = nn.Linear(hop, width)
        self.cell = nn.GRUCell(width, width)
        self.mask = nn.Linear(width, hop)
        self.hidden: torch.Tensor | None = None

    def forward(self, hop: torch.Tensor) -> torch.Tensor:
        z = torch.tanh(self.inp(hop))
        if self.hidden is None:
            self.hidden = torch.zeros(hop.shape[0], self.cell.hidden_size, device=hop.device)
        self.hidden.copy_(self.cell(z, self.hidden))
        return hop * torch.sigmoid(self.mask(self.hidden))


@dataclasses.dataclass
class Channel:
    name: str
    inbox: asyncio.Queue = dataclasses.field(default_factory=lambda: asyncio.Queue(8))
    outbox: asyncio.Queue = dataclasses.field(default_factory=lambda: asyncio.Queue(8))


class DenoiseSession:
    def __init__(self, hop: int, device):
        self.net = GatedDenoiser(hop).to(device).eval()
        self.static = torch.zeros(1, hop, device=device)
        self.stream = torch.cuda.Stream()
        self.graph: torch.cuda.CUDAGraph | None = None
        self.output: torch.Tensor | None = None

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(self.stream):
            graph.capture_begin()
            self.output = self.net(self.static)
            graph.capture_end()
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = graph

    def __call__(self, hop: torch.Tensor) -> torch.Tensor:
        if self.graph is None:
            self._record()
        self.static.copy_(hop)
        self.graph.replay()
        return self.output


async def pump(session: DenoiseSession, channel: Channel) -> None:
    while (hop := await channel.inbox.get()) is not None:
        await channel.outbox.put(session(hop))
    await channel.outbox.put(None)


async def microphone(channel: Channel, hops: int, size: int, device) -> None:
    for _ in range(hops):
        await channel.inbox.put(torch.randn(1, size, device=device))
    await channel.inbox.put(None)


async def cleaned(channel: Channel) -> AsyncIterator[torch.Tensor]:
    while (hop := await channel.outbox.get()) is not None:
        yield hop


async def listen(channel: Channel) -> torch.Tensor:
    return torch.cat([hop async for hop in cleaned(channel)], dim=1)


async def main(device="cuda", hops: int = 12, size: int = 64) -> dict[str, torch.Size]:
    torch.manual_seed(0)
    channels = [Channel("left"), Channel("right")]
    sessions = {c.name: DenoiseSession(size, device) for c in channels}
    jobs = [microphone(c, hops, size, device) for c in channels]
    jobs += [pump(sessions[c.name], c) for c in channels]
    results = await asyncio.gather(*(listen(c) for c in channels), *jobs)
    return {c.name: r.shape for c, r in zip(channels, results)}


if __name__ == "__main__":
    print(asyncio.run(main()))
