from __future__ import annotations

import functools

import torch


def fenced(fn):
    """Run fn only when everything launched so far has ended."""

    @functools.wraps(fn)
    def run(*args, **kwargs):
        torch.cuda.synchronize()
        return fn(*args, **kwargs)

    return run


class Captured:
    """Base of the two models: warm up, capture, replay."""

    graph: torch.cuda.CUDAGraph | None = None

    def forward(self) -> None:
        raise NotImplementedError

    @torch.inference_mode()
    def capture(self, rounds: int = 3) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(rounds):
                self.forward()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.forward()

    def replay(self) -> None:
        if self.graph is None:
            self.capture()
        self.graph.replay()
