"""Particle-mesh growth of structure in an Einstein-de Sitter box, several realisations with one graph."""
import math

import torch


def scale_factors(start: float, end: float, steps: int):
    edges = [start * (end / start) ** (i / steps) for i in range(steps + 1)]
    rows = []
    for a0, a1 in zip(edges[:-1], edges[1:]):
        middle = math.sqrt(a0 * a1)
        rows.append((1.5 * (a1 - a0) / math.sqrt(middle), (a1 - a0) / middle**1.5))
    return rows


class Mesh:
    def __init__(self, cells: int, device: torch.device):
        self.cells = cells
        freq = 2 * math.pi * torch.fft.fftfreq(cells, device=device)
        half = 2 * math.pi * torch.fft.rfftfreq(cells, device=device)
        kx, ky, kz = torch.meshgrid(freq, freq, half, indexing="ij")
        self.k = torch.stack([kx, ky, kz])
        square = self.k.square().sum(0)
        self.inverse = torch.where(square > 0, 1.0 / square.clamp_min(1e-12), torch.zeros_like(square))
        self.shell = (square.sqrt() * cells / (2 * math.pi)).round().long().clamp_(max=cells // 2)
        corner = torch.arange(8, device=device)
        self.corners = torch.stack([corner & 1, (corner >> 1) & 1, (corner >> 2) & 1], dim=-1)

    def weights(self, position: torch.Tensor):
        floor = position.floor()
        part = (position - floor).unsqueeze(1)
        cell = (floor.long().unsqueeze(1) + self.corners) % self.cells
        weight = torch.where(self.corners == 1, part, 1 - part).prod(-1)
        index = (cell[..., 0] * self.cells + cell[..., 1]) * self.cells + cell[..., 2]
        return index, weight

    def density(self, position: torch.Tensor) -> torch.Tensor:
        index, weight = self.weights(position)
        grid = torch.zeros(self.cells**3, device=position.device)
        grid.index_add_(0, index.flatten(), weight.flatten())
        return grid.view(self.cells, self.cells, self.cells) * (self.cells**3 / position.shape[0]) - 1.0

    def acceleration(self, position: torch.Tensor) -> torch.Tensor:
        potential = -torch.fft.rfftn(self.density(position)) * self.inverse
        field = torch.fft.irfftn(-1j * self.k * potential, s=(self.cells,) * 3, dim=(1, 2, 3)).flatten(1)
        index, weight = self.weights(position)
        return (field[:, index] * weight).sum(-1).T

    def power(self, position: torch.Tensor) -> torch.Tensor:
        square = torch.fft.rfftn(self.density(position)).abs().square() / self.cells**3
        total = torch.zeros(self.cells // 2 + 1, device=position.device)
        count = torch.zeros_like(total)
        total.index_add_(0, self.shell.flatten(), square.flatten())
        count.index_add_(0, self.shell.flatten(), torch.ones_like(square).flatten())
        return total / count


class Universe:
    def __init__(self, cells: int, start: float, end: float, steps: int, device: torch.device):
        self.mesh = Mesh(cells, device)
        self.steps = steps
        self.table = torch.tensor(scale_factors(start, end, steps), device=device)
        self.index = torch.zeros(1, dtype=torch.int64, device=device)
        axis = torch.arange(cells, device=device, dtype=torch.float32)
        self.lattice = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), dim=-1).view(-1, 3)
        self.position = self.lattice.clone()
        self.momentum = torch.zeros_like(self.position)
        self.spread = torch.zeros(steps, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()

    def leap(self) -> None:
        kick, drift = self.table.index_select(0, self.index).squeeze(0).unbind(0)
        self.momentum.add_(self.mesh.acceleration(self.position) * kick)
        self.position.add_(self.momentum * drift).remainder_(self.mesh.cells)
        self.spread.index_copy_(0, self.index, self.momentum.square().mean().sqrt().view(1))
        self.index.add_(1).remainder_(self.steps)

    def record(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self.leap()
        torch.cuda.current_stream().wait_stream(self.stream)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.leap()

    def sow(self, amplitude: float) -> None:
        """Random displacements of a new realisation, written over the state of the last one."""
        noise = torch.fft.rfftn(torch.randn((self.mesh.cells,) * 3, device=self.position.device))
        smooth = noise * self.mesh.inverse.sqrt() * amplitude
        field = torch.fft.irfftn(1j * self.mesh.k * self.mesh.inverse * smooth, s=(self.mesh.cells,) * 3, dim=(1, 2, 3))
        shift = field.flatten(1).T
        self.position.copy_((self.lattice + shift) % self.mesh.cells)
        self.momentum.copy_(shift * 0.1)
        self.index.zero_()

    def evolve(self, outputs: int):
        spectra = []
        for step in range(self.steps):
            self.graph.replay()
            if (step + 1) % (self.steps // outputs) == 0:
                spectra.append(self.mesh.power(self.position))
        return torch.stack(spectra), self.spread.clone()


@torch.no_grad()
def main() -> None:
    torch.manual_seed(1)
    universe = Universe(cells=12, start=0.1, end=1.0, steps=20, device=torch.device("cuda"))
    universe.record()
    realisations = []
    for amplitude in (0.3, 0.6, 0.9):
        universe.sow(amplitude)
        realisations.append(universe.evolve(outputs=4))
    for spectra, spread in realisations:
        low = [round(p, 5) for p in spectra[:, 1:4].mean(1).tolist()]
        print("power at large scales", low, "velocity spread", round(spread[-1].item(), 5))


if __name__ == "__main__":
    main()
