"""Pressure projection of a small fluid solver; the smoothing sweeps are recorded where that is possible."""

import contextlib

import torch
import torch.nn.functional as F

SIZE, SWEEPS, FRAMES, TOLERANCE = 48, 30, 25, 1e-4


class Pressure:
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.divergence = torch.zeros(1, 1, SIZE, SIZE, device=device)
        self.pressure = torch.zeros(1, 1, SIZE, SIZE, device=device)
        around = torch.tensor([[0.0, 0.25, 0.0], [0.25, 0.0, 0.25], [0.0, 0.25, 0.0]])
        self.around = around.view(1, 1, 3, 3).to(device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def sweep(self) -> None:
        for number in range(SWEEPS):
            fresh = F.conv2d(self.pressure, self.around, padding=1) - 0.25 * self.divergence
            if number % 10 == 9:
                change = (fresh - self.pressure).abs().amax()
                if change.item() < TOLERANCE:
                    break
            self.pressure.copy_(fresh)

    def record(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.sweep()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.sweep()
        self.graph = graph

    def solve(self) -> torch.Tensor:
        if self.graph is not None:
            self.graph.replay()
        else:
            self.sweep()
        return self.pressure


class Fluid:
    def __init__(self, device: torch.device) -> None:
        self.u = torch.zeros(1, 1, SIZE, SIZE, device=device)
        self.v = torch.zeros(1, 1, SIZE, SIZE, device=device)
        self.pressure = Pressure(device)
        self.pressure.divergence.normal_()
        with contextlib.suppress(RuntimeError):
            self.pressure.record()

    def stir(self, frame: int) -> None:
        middle = SIZE // 2
        self.u[..., middle - 3 : middle + 3, 4:10] += 0.5 / (1 + frame)

    def project(self) -> None:
        across = self.u.roll(-1, 3) - self.u.roll(1, 3)
        along = self.v.roll(-1, 2) - self.v.roll(1, 2)
        self.pressure.divergence.copy_(0.5 * (across + along))
        p = self.pressure.solve()
        self.u.sub_(0.5 * (p.roll(-1, 3) - p.roll(1, 3)))
        self.v.sub_(0.5 * (p.roll(-1, 2) - p.roll(1, 2)))


@torch.no_grad()
def main() -> None:
    device = torch.device("cuda")
    fluid = Fluid(device)
    for frame in range(FRAMES):
        fluid.stir(frame)
        fluid.project()
    print("speed", f"{fluid.u.abs().amax().item():.5f} {fluid.v.abs().amax().item():.5f}")


if __name__ == "__main__":
    main()
