"""Two encoders run beside each other on lanes of a pool that takes turns; every lane forks from and joins the step's stream."""
import contextlib
import itertools

import torch
from torch import nn

import graphsafe


class Lanes:
    def __init__(self, device, count):
        cuda = device.type == "cuda"
        self.streams = [torch.cuda.Stream(device) for _ in range(count)] if cuda else [None] * count
        self.turns = itertools.cycle(range(count))

    @contextlib.contextmanager
    def lane(self):
        stream = self.streams[next(self.turns)]
        if stream is None:
            yield lambda *tensors: None
            return
        main, done = torch.cuda.current_stream(), torch.cuda.Event()
        stream.wait_stream(main)
        with torch.cuda.stream(stream):

            def join(*tensors):
                main.wait_event(done)
                for t in tensors:
                    t.record_stream(main)

            yield join
            done.record(stream)


class TwoTowers(nn.Module):
    def __init__(self, lanes):
        super().__init__()
        self.left, self.right = (nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 8)) for _ in range(2))
        self.temperature = nn.Parameter(torch.ones(1))
        self.lanes = lanes

    def forward(self, a, b):
        with self.lanes.lane() as join_a:
            u = self.left(a)
        with self.lanes.lane() as join_b:
            v = self.right(b)
        join_a(u)
        join_b(v)
        return torch.cosine_similarity(u, v) * self.temperature


def build(device):
    model = TwoTowers(Lanes(device, 5)).to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 20))
        args[1].copy_(torch.randn(6, 20))
        model.temperature.fill_(1 + k % 9 / 9)

    return graphsafe.Step(model, (torch.randn(6, 20, device=device), torch.randn(6, 20, device=device)), refresh=refresh)
