"""Scores a stream of sensor frames that arrive in host memory.

Frames are staged through a small ring of pinned buffers, so that the copy to
the GPU does not hold up the host.
"""
from itertools import cycle

import torch
import torch.nn as nn

device = torch.device("cuda")
ROWS, WIDTH, LAYERS, FRAMES, RING = 64, 1024, 48, 96, 3


def make_model():
    layers = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH, bias=False), nn.Tanh()]
    return nn.Sequential(*layers).to(device).eval()


def sensor(n, seed):
    gen = torch.Generator().manual_seed(seed)
    base = torch.randn(ROWS, WIDTH, generator=gen)
    for i in range(n):
        yield torch.roll(base, i * 17 + 1, dims=1) * (1.0 + 0.05 * (i % 9))


class Stage:
    """One pinned buffer of the ring."""

    def __init__(self):
        self.host = torch.empty(ROWS, WIDTH).pin_memory()
        self.sent = torch.cuda.Event()
        self.sent.record()

    def upload(self, frame, target):
        self.sent.synchronize()
        self.host.copy_(frame)
        target.copy_(self.host, non_blocking=True)
        self.sent.record()


class Scorer:
    def __init__(self, model):
        self.model = model
        self.x = torch.zeros(ROWS, WIDTH, device=device)
        self.ring = cycle([Stage() for _ in range(RING)])
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    @torch.no_grad()
    def _capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.score(self.x)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.y = self.score(self.x)

    def score(self, x):
        return (self.model(x) * x).mean(dim=1)

    def feed(self, frames):
        """Scores frames in order; the result stays on the device."""
        for frame in frames:
            stage = next(self.ring)
            stage.upload(frame, self.x)
            self.graph.replay()
            yield self.y.clone()


def main():
    torch.manual_seed(51)
    model = make_model()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(WIDTH, WIDTH) * 1.2 / WIDTH**0.5)
    scorer = Scorer(model)
    frames = list(sensor(FRAMES, seed=52))

    got = torch.stack(list(scorer.feed(frames)))

    with torch.no_grad():
        want = torch.stack([scorer.score(f.to(device)) for f in frames])
    gap = float((got - want).abs().nan_to_num(1e9).max())
    print("RESULT", round(float(got.abs().mean()), 5))
    print("CHECK ok" if gap < 1e-3 else f"CHECK wrong: scores differ by {gap:.4g}")


if __name__ == "__main__":
    main()
