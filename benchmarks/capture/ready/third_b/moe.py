"""Experts, adapters and streamed weights."""
import math
from collections import deque
from contextlib import nullcontext

import torch


def lane(device):
    return torch.cuda.Stream(device) if device.type == "cuda" else None


def on(stream):
    return torch.cuda.stream(stream) if stream is not None else nullcontext()


class TwoExperts:
    def __init__(self, device, dim=256, hidden=512):
        self.up = torch.randn(2, dim, hidden, device=device) / math.sqrt(dim)
        self.down = torch.randn(2, hidden, dim, device=device) / math.sqrt(hidden)
        self.hidden = torch.zeros(128, hidden, device=device)
        self.out = torch.zeros(2, 128, dim, device=device)
        self.lanes = [lane(device), lane(device)]

    def expert(self, i, x):
        torch.mm(x, self.up[i], out=self.hidden)
        self.hidden.relu_()
        torch.mm(self.hidden, self.down[i], out=self.out[i])

    def __call__(self, x, gate):
        for i, stream in enumerate(self.lanes):
            if stream is not None:
                stream.wait_stream(torch.cuda.current_stream())
            with on(stream):
                for _ in range(3):
                    self.expert(i, x)
        for stream in self.lanes:
            if stream is not None:
                torch.cuda.current_stream().wait_stream(stream)
        share = torch.softmax(gate, dim=0).view(2, 1, 1)
        return (share * self.out).sum(dim=0)


def build_two_experts(device):
    return TwoExperts(device), (torch.randn(128, 256, device=device), torch.randn(2, device=device))


class SplitExperts:
    """Each lane fills its own half of one buffer."""

    def __init__(self, device, dim=128):
        self.w = torch.randn(2, dim, dim, device=device) / math.sqrt(dim)
        self.both = torch.zeros(64, 2 * dim, device=device)
        self.lanes = [lane(device), lane(device)]
        self.dim = dim

    def __call__(self, x):
        main = torch.cuda.current_stream() if self.lanes[0] is not None else None
        for stream in self.lanes:
            if main is not None:
                stream.wait_stream(main)
        for i, stream in enumerate(self.lanes):
            with on(stream):
                half = self.both.narrow(1, i * self.dim, self.dim)
                half.copy_(torch.tanh(x @ self.w[i]))
        for stream in reversed(self.lanes):
            if main is not None:
                main.wait_stream(stream)
        return self.both.square().mean(dim=-1), self.both[:, ::16].clone()


def build_split_experts(device):
    return SplitExperts(device), (torch.randn(64, 128, device=device),)


class StreamedLayers:
    """Layer weights come from pinned memory while the layer before them computes."""

    def __init__(self, device, layers=4, dim=256):
        self.slots = [torch.zeros(dim, dim, device=device) for _ in range(layers)]
        self.copies = lane(device)
        self.ready = [torch.cuda.Event() if self.copies is not None else None for _ in range(layers)]

    def fetch(self, host):
        for slot, weight, ready in zip(self.slots, host, self.ready):
            slot.copy_(weight, non_blocking=True)
            if ready is not None:
                ready.record(self.copies)

    def __call__(self, x, host):
        if self.copies is not None:
            self.copies.wait_stream(torch.cuda.current_stream())
        with on(self.copies):
            self.fetch(host)
        for i, slot in enumerate(self.slots):
            if self.copies is not None:
                torch.cuda.current_stream().wait_event(self.ready[max(i - 1, 0)])
            x = torch.tanh(x @ slot)
        if self.copies is not None:
            torch.cuda.current_stream().wait_stream(self.copies)
        return x


def build_streamed_layers(device):
    host = [torch.randn(256, 256) / 16 for _ in range(4)]
    if device.type == "cuda":
        host = [w.pin_memory() for w in host]
    return StreamedLayers(device), (torch.randn(8, 256, device=device), host)


CAPACITY = {}


def capacity(experts, tokens):
    if experts not in CAPACITY:
        CAPACITY[experts] = max(1, tokens // experts)
    return CAPACITY[experts]


def build_capacity_router(device, batch=4):
    experts, dim = 4, 8
    w = torch.randn(experts, dim, device=device)
    lanes = torch.arange(experts, device=device)

    def step(logits, x):
        chosen = (logits.argmax(dim=-1, keepdim=True) == lanes).float()
        place = (chosen.cumsum(dim=0) * chosen).sum(dim=-1)
        kept = chosen * (place <= capacity(experts, batch * 4)).float().unsqueeze(-1)
        return x + kept @ w, kept.sum(dim=0)

    return step, (torch.randn(batch * 4, experts, device=device), torch.randn(batch * 4, dim, device=device))


class AdapterRota:
    def __init__(self, device, tenants=5, dim=16, rank=2):
        self.base = torch.randn(dim, dim, device=device) / 4
        self.adapters = deque(
            (torch.randn(dim, rank, device=device), torch.randn(rank, dim, device=device)) for _ in range(tenants)
        )

    def __call__(self, x):
        a, b = self.adapters[0]
        self.adapters.rotate(-1)
        return x @ self.base + (x @ a) @ b / 2


def build_adapter_rota(device):
    return AdapterRota(device), (torch.randn(4, 16, device=device),)


class GatheredExpert:
    """The full weight exists only inside the step; the shards are what is trained."""

    def __init__(self, device, shards=4, dim=32):
        self.shards = [torch.randn(dim // shards, dim, device=device) / 6 for _ in range(shards)]
        self.full = torch.empty(dim, dim, device=device)
        self.size = self.full.untyped_storage().nbytes()
        self.full.untyped_storage().resize_(0)

    def __call__(self, x):
        self.full.untyped_storage().resize_(self.size)
        torch.cat(self.shards, out=self.full)
        out = torch.tanh(x @ self.full)
        grad = x.t() @ (out * (1 - out * out))
        for shard, piece in zip(self.shards, grad.chunk(len(self.shards))):
            shard.sub_(piece, alpha=0.01)
        self.full.untyped_storage().resize_(0)
        return out


def build_gathered_expert(device):
    return GatheredExpert(device), (torch.randn(6, 32, device=device),)
