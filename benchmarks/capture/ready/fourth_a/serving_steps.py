"""Decode-side steps of a small inference server."""
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

import graphsafe


def pinned(t, device):
    return t.pin_memory() if device.type == "cuda" else t


def noise(shape, k, salt=0):
    g = torch.Generator().manual_seed(7919 * k + salt)
    return torch.randn(shape, generator=g)


@dataclass
class SamplingParams:
    temperature: np.ndarray = field(default_factory=lambda: np.full(1, 0.7))
    top_k: int = 8


def build_sampler(device):
    torch.manual_seed(1)
    head = nn.Linear(32, 64).to(device).requires_grad_(False)

    def step(hidden, params):
        logits = head(hidden)
        kth = logits.topk(params.top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < kth, float("-inf"))
        return torch.softmax(4.0 * logits / float(params.temperature[0]), dim=-1)

    return step, (torch.randn(4, 32, device=device), SamplingParams())


class Slot:
    def __init__(self, device, span=48, dim=16):
        self.k = torch.randn(span, dim, device=device)
        self.v = torch.randn(span, dim, device=device)
        self.length = torch.tensor([span - 2])


def build_prefix_attention(device):
    torch.manual_seed(2)
    wq = torch.randn(16, 16, device=device) * 0.25

    def step(x, slot):
        n = int(slot.length) + 1
        att = torch.softmax((x @ wq) @ slot.k[:n].t(), dim=-1)
        return att @ slot.v[:n]

    return step, (torch.randn(3, 16, device=device), Slot(device))


def build_paged_gather(device):
    torch.manual_seed(3)
    pages = torch.randn(16, 8, 4, device=device)
    stage = pinned(torch.zeros(4, 3, dtype=torch.int64), device)
    table = torch.zeros(4, 3, dtype=torch.int64, device=device)

    def step(q, request):
        stage.copy_(request["batch"]["blocks"])
        table.copy_(stage, non_blocking=True)
        keys = pages[table].flatten(1, 2)
        att = torch.softmax(torch.einsum("bd,bnd->bn", q, keys), dim=-1)
        return torch.einsum("bn,bnd->bd", att, keys)

    blocks = torch.tensor([[0, 3, 9], [15, 2, 2], [7, 8, 1], [4, 4, 11]])
    return step, (torch.randn(4, 4, device=device), {"batch": {"blocks": blocks, "tags": ["a", "b"]}})


class KVRing(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.kv = nn.Linear(dim, 2 * dim)
        self.keys, self.values, self.used = None, None, 0

    def room(self, x):
        if self.keys is None:
            self.keys, self.values = x.new_zeros(2, 64, x.shape[-1]).unbind()
        elif self.used == len(self.keys):
            self.keys = torch.cat([self.keys, torch.zeros_like(self.keys)])
            self.values = torch.cat([self.values, torch.zeros_like(self.values)])

    @torch.no_grad()
    def forward(self, x):
        self.room(x)
        k, v = self.kv(x).chunk(2, dim=-1)
        self.keys[self.used].copy_(k)
        self.values[self.used].copy_(v)
        self.used += 1
        att = torch.softmax(self.keys[: self.used] @ x, dim=0)
        return att @ self.values[: self.used]


def build_decode_cache(device):
    torch.manual_seed(4)
    return KVRing().to(device), (torch.randn(8, device=device),)


def build_adapter_bank(device):
    torch.manual_seed(5)
    base = torch.randn(16, 16, device=device) * 0.2
    bank = {"A": torch.randn(16, 4, device=device) * 0.3, "B": torch.randn(4, 16, device=device) * 0.3}

    def step(x, bank):
        return torch.relu(x @ base + (x @ bank["A"]) @ bank["B"])

    def refresh(args, kwargs, k):
        args[0].copy_(noise((6, 16), k))
        if k % 8 == 7:
            kwargs["bank"]["A"] = (noise((16, 4), k, 1) * 0.3).to(device)
            kwargs["bank"]["B"].copy_(noise((4, 16), k, 2) * 0.3)

    return graphsafe.Step(step, (torch.randn(6, 16, device=device),), {"bank": bank}, refresh=refresh)


class DraftLoop:
    def __init__(self, device):
        self.w = torch.randn(16, 16, device=device) * 0.4
        self.u = torch.randn(16, 16, device=device) * 0.25
        self.accepted = pinned(torch.ones(1, dtype=torch.int64), device)

    def __call__(self, x):
        drive = x @ self.u
        h = torch.tanh(drive)
        for _ in range(1 + int(self.accepted[0])):
            h = torch.tanh(h @ self.w + drive)
        self.accepted.copy_((h[0, :4] > 0).sum().view(1), non_blocking=True)
        return h


def build_draft_loop(device):
    torch.manual_seed(6)
    return DraftLoop(device), (torch.randn(2, 16, device=device),)


def build_offset_logits(device):
    torch.manual_seed(7)
    head = torch.randn(32, 48, device=device) * 0.2

    def step(hidden, stats):
        logits = hidden @ head
        logits = logits - float(stats["peak"].max())
        return torch.softmax(logits, dim=-1)

    return step, (torch.randn(4, 32, device=device), {"peak": np.linspace(1.0, 5.0, 6)})


def build_echo_request(device):
    torch.manual_seed(8)
    proj = torch.randn(8, 8, device=device)

    def step(x, ids, priority):
        pooled = torch.tanh(x @ proj).mean(dim=1)
        return {"ids": ids, "priority": priority[::2], "pooled": pooled[: len(ids)]}

    ids = torch.tensor([11, 4, 7, 4])
    return step, (torch.randn(4, 5, 8, device=device), ids, np.linspace(0.0, 1.0, 4))


class Workspace:
    def __init__(self):
        self.slabs = {}

    def get(self, shape, like):
        if shape not in self.slabs:
            self.slabs[shape] = torch.empty(shape, dtype=like.dtype, device=like.device)
        return self.slabs[shape]


def build_workspace_attention(device):
    torch.manual_seed(9)
    room = Workspace()

    def step(q, k, v):
        scores = torch.matmul(q, k.transpose(1, 2), out=room.get((2, 6, 10), q))
        scores.mul_(0.5).sub_(scores.amax(dim=-1, keepdim=True)).exp_()
        scores.div_(scores.sum(dim=-1, keepdim=True))
        return torch.matmul(scores, v, out=room.get((2, 6, 4), q))

    return step, tuple(torch.randn(2, n, 4, device=device) for n in (6, 10, 10))


def build_merge_in_place(device):
    torch.manual_seed(10)
    layer = nn.Linear(16, 16).to(device).requires_grad_(False)
    pairs = [(noise((16, 2), i).to(device) * 0.3, noise((2, 16), i, 5).to(device) * 0.3) for i in range(3)]
    live = [None]

    def refresh(args, kwargs, k):
        args[0].copy_(noise((4, 16), k))
        want = (k // 5) % 4
        if live[0] is not None:
            layer.weight.sub_(live[0][0] @ live[0][1])
        live[0] = pairs[want] if want < 3 else None
        if live[0] is not None:
            layer.weight.add_(live[0][0] @ live[0][1])

    return graphsafe.Step(lambda x: torch.relu(layer(x)), (torch.randn(4, 16, device=device),), {}, refresh=refresh)
