"""Two-dimensional wave equation with a moving source: one recorded time step, three time levels."""

import torch
import torch.nn.functional as F

SIZE, STEPS, COURANT = 64, 120, 0.4


class Wave:
    def __init__(self, device: torch.device) -> None:
        self.before = torch.zeros(1, 1, SIZE, SIZE, device=device)
        self.now = torch.zeros(1, 1, SIZE, SIZE, device=device)
        self.after = torch.zeros(1, 1, SIZE, SIZE, device=device)
        self.source = torch.zeros(1, 1, SIZE, SIZE, device=device)
        self.absorb = torch.ones(1, 1, SIZE, SIZE, device=device)
        for width in range(6):
            edge = 0.85 + 0.025 * width
            self.absorb[..., width, :] *= edge
            self.absorb[..., -1 - width, :] *= edge
            self.absorb[..., width] *= edge
            self.absorb[..., -1 - width] *= edge
        kernel = torch.tensor([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])
        self.kernel = kernel.view(1, 1, 3, 3).to(device)

    def advance(self) -> None:
        bend = F.conv2d(self.now, self.kernel, padding=1)
        step = 2 * self.now - self.before + COURANT**2 * bend + self.source
        self.after.copy_(step * self.absorb)

    def rotate(self) -> None:
        self.before, self.now, self.after = self.now, self.after, self.before


class Solver:
    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            wave.advance()
        torch.cuda.current_stream().wait_stream(side)
        self.graphs = []
        for _ in range(3):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                wave.advance()
            self.graphs.append(graph)
            wave.rotate()
        self.count = 0

    def step(self) -> None:
        self.graphs[self.count % 3].replay()
        self.count += 1
        self.wave.rotate()


class Source:
    """A drop that wanders over the surface and is switched off after a while."""

    def __init__(self, device: torch.device) -> None:
        grid = torch.arange(SIZE, device=device, dtype=torch.float32)
        self.rows, self.columns = grid[:, None], grid[None]

    def write(self, out: torch.Tensor, step: int) -> None:
        if step >= 40:
            out.zero_()
            return
        row, column = 20 + 0.4 * step, 32 + 0.1 * step
        distance = (self.rows - row) ** 2 + (self.columns - column) ** 2
        out[0, 0].copy_(0.2 * torch.exp(-distance / 6))


@torch.no_grad()
def main() -> None:
    device = torch.device("cuda")
    wave = Wave(device)
    solver, source = Solver(wave), Source(device)
    energy = []
    for step in range(STEPS):
        source.write(wave.source, step)
        solver.step()
        if step % 10 == 9:
            energy.append(wave.now.square().sum())
    print("energy", [round(value, 4) for value in torch.stack(energy).tolist()])


if __name__ == "__main__":
    main()
