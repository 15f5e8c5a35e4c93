"""Runs a stepper to its steady state with one captured time step."""
from __future__ import annotations

import argparse

import torch

from .field import Field
from .implicit import BackwardEuler


class Replayed:
    """One time step of any Field, recorded once."""

    def __init__(self, field: Field):
        self.field = field
        lane = torch.cuda.Stream(field.device)
        lane.wait_stream(torch.cuda.current_stream(field.device))
        with torch.cuda.stream(lane):
            for _ in range(3):
                field.march()
        torch.cuda.current_stream(field.device).wait_stream(lane)
        self.tape = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.tape, stream=lane):
            field.march()

    def __call__(self) -> None:
        self.tape.replay()


def settle(field: BackwardEuler, tolerance: float, chunk: int, verbose: bool) -> int:
    advance = Replayed(field)
    steps = 0
    advance()
    while field.change > tolerance:
        advance()
        steps += 1
        if verbose and steps % 250 == 0:
            print(f"{steps:6d}  change {field.change:.3e}  flux {field.flux:.3e}")
        if steps > chunk:
            break
    return steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=24)
    parser.add_argument("--dt", type=float, default=0.1)
    parser.add_argument("--tolerance", type=float, default=1e-8)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    device = torch.device("cuda", 0)
    with torch.cuda.device(device):
        field = BackwardEuler(options.size, options.size, options.dt, device)
        steps = settle(field, options.tolerance, 10_000, options.verbose)
    print(steps, field.u.max().item())


if __name__ == "__main__":
    main()
