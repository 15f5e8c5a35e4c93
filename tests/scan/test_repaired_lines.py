"""Lines that real projects repaired, each in a small module of its own, and code that looks like them and is sound."""

from __future__ import annotations

import re

import pytest

from .conftest import Scan

HAZARDS = {
    "a running average without a momentum": """
        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(8, momentum=None)

            def forward(self, x):
                return torch.relu(self.norm(x))  # expect: GS106
        """,
    "weights loaded from the host": """
        class Slow:
            def __init__(self, net):
                self.net = net
                self.saved = {k: v.detach().cpu() for k, v in net.state_dict().items()}

            def pull(self, x):
                self.net.load_state_dict(self.saved)  # expect: GS304
                return self.net(x)

        def build(device):
            return Slow(nn.Linear(4, 4).to(device)).pull, (torch.rand(2, 4, device=device),)
        """,
    "saved tensors kept on the host": """
        class Offload(nn.Module):
            def pack(self, t):
                return t.device, t.cpu()  # expect: GS103

            def unpack(self, packed):
                device, t = packed
                return t.to(device)  # expect: GS304

            def forward(self, x):
                with torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack):
                    return (x * x).sum()
        """,
    "an index that numpy drew": """
        import numpy as np

        class Shuffle:
            def __init__(self, n, device):
                self.u = torch.rand(n, device=device)
                self.order = np.random.permutation(n)

            def step(self):
                return self.u[self.order]  # expect: GS302

        def build(device):
            return Shuffle(8, device).step, ()
        """,
    "fields of a dataclass moved one by one": """
        from dataclasses import dataclass, fields, replace

        @dataclass
        class Batch:
            ids: torch.Tensor
            n: int = 0

            def to(self, device):
                moved = {}
                for f in fields(self):
                    v = getattr(self, f.name)
                    moved[f.name] = v.to(device) if isinstance(v, torch.Tensor) else v  # expect: GS304
                return replace(self, **moved)

        class Scorer:
            def __init__(self, device):
                self.device = device
                self.table = torch.rand(8, 4, device=device)
                self.batch = Batch(torch.zeros(4, dtype=torch.long))

            def step(self):
                return self.table[self.batch.to(self.device).ids]

        def build(device):
            return Scorer(device).step, ()
        """,
    "a counter in an object that each step replaces": """
        from dataclasses import dataclass, replace

        @dataclass(frozen=True)
        class Clock:
            tick: int = 0
            rate: float = 0.1

        class Decay:
            def __init__(self, device):
                self.clock = Clock()
                self.w = torch.rand(8, device=device)

            def step(self):
                self.clock = replace(self.clock, tick=self.clock.tick + 1)  # expect: GS702
                self.w.mul_(1 - self.clock.rate / (1 + self.clock.tick))
                return self.w

        def build(device):
            return Decay(device).step, ()
        """,
    "a key whose hash is on the device": """
        class Slot:
            def __init__(self, t):
                self.t = t

            def __hash__(self):
                return hash(self.t.item())  # expect: GS101

            def __eq__(self, other):
                return torch.equal(self.t, other.t)  # expect: GS106

        class Memo:
            def __init__(self):
                self.known = {}

            def step(self, x):
                return x if Slot(x.sum()) in self.known else x + 1

        def build(device):
            return Memo().step, (torch.rand(4, device=device),)
        """,
}
SOUND = {
    "entries that the first step of an optimizer makes": """
        class Lion(torch.optim.Optimizer):
            @torch.no_grad()
            def step(self, closure=None):
                for group in self.param_groups:
                    if "start" not in group:
                        group["start"] = group["params"][0].grad.norm().item()
                    for p in group["params"]:
                        state = self.state[p]
                        if "scale" not in state:
                            state["scale"] = torch.tensor(1.0, device=p.device)
                        p.sub_(p.grad.sign() * state["scale"])
        """,
    "the host's copy of lengths": """
        class Varlen(nn.Module):
            def forward(self, q, cu_seqlens, cu_seqlens_cpu):
                if (cu_seqlens_cpu[1:] - cu_seqlens_cpu[:-1]).max() > 8:
                    q = q * 2
                return q[: int(cu_seqlens_cpu[-1])] + cu_seqlens[0]
        """,
    "the state of the host's generator": """
        class Drop(nn.Module):
            def forward(self, x):
                torch.set_rng_state(torch.get_rng_state())
                return x
        """,
    "code for steps without graphs": """
        class Experts(nn.Module):
            def __init__(self, settings):
                super().__init__()
                self.enable_cuda_graph = settings.graphs
                self.w = nn.Parameter(torch.rand(4, 8, 8))

            def forward(self, x, expert, use_cuda_graph: bool = True):
                if not use_cuda_graph:
                    x = x + expert.unique().sum()
                if self.enable_cuda_graph:
                    return x @ self.w.sum(0)
                return x @ self.w[expert.unique()].sum(0)
        """,
    "a plan that takes a number over": """
        from dataclasses import dataclass, replace

        @dataclass(frozen=True)
        class Plan:
            scale: float
            width: int

        class Mover:
            def __init__(self):
                self.plan = Plan(scale=1.0, width=4)

            def step(self, x):
                self.plan = replace(self.plan, scale=self.plan.scale, width=x.shape[0])
                return x * self.plan.scale

        def build(device):
            return Mover().step, (torch.rand(4, device=device),)
        """,
}


@pytest.mark.parametrize("source", HAZARDS.values(), ids=HAZARDS)
def test_lines_that_wait_copy_or_go_stale(scan: Scan, source: str) -> None:
    expected = [
        (match[1], line.strip()) for line in source.splitlines() if (match := re.search(r"expect: (\w+)", line))
    ]
    assert scan(source) == expected


@pytest.mark.parametrize("source", SOUND.values(), ids=SOUND)
def test_code_that_only_looks_like_it(scan: Scan, source: str) -> None:
    assert scan(source) == []
