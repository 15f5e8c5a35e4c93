"""Heat in a slab: the mesh is refined twice, and the recorded time step is recorded anew for each mesh."""

import torch
import torch.nn.functional as F

COARSE, LEVELS, STEPS = 16, 3, 160


class Mesh:
    def __init__(self, temperature: torch.Tensor) -> None:
        self.size = temperature.shape[-1]
        self.temperature = temperature
        self.heater = torch.zeros_like(temperature)
        self.ratio = 0.2
        device = temperature.device
        kernel = torch.tensor([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])
        self.kernel = kernel.view(1, 1, 3, 3).to(device)

    def advance(self) -> None:
        padded = F.pad(self.temperature, (1, 1, 1, 1), mode="replicate")
        flow = F.conv2d(padded, self.kernel)
        self.temperature.add_(flow, alpha=self.ratio)
        self.temperature.add_(self.heater)

    def refined(self) -> "Mesh":
        finer = F.interpolate(self.temperature, scale_factor=2, mode="nearest")
        return Mesh(finer)


class Solver:
    def __init__(self, mesh: Mesh) -> None:
        self.graph: torch.cuda.CUDAGraph | None = None
        self.adopt(mesh)

    def adopt(self, mesh: Mesh) -> None:
        self.graph = None
        self.mesh = mesh
        before = mesh.temperature.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            mesh.advance()
        torch.cuda.current_stream().wait_stream(side)
        mesh.temperature.copy_(before)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            mesh.advance()
        self.graph = graph

    def heat(self, step: int) -> None:
        """The heater goes round the middle of the slab."""
        size = self.mesh.size
        at = size // 4 + step * size // (2 * STEPS)
        self.mesh.heater.zero_()
        self.mesh.heater[..., at : at + 2, size // 2 : size // 2 + 2].fill_(0.05)

    def run(self, steps: int) -> torch.Tensor:
        hottest = []
        for step in range(steps):
            self.heat(step)
            self.graph.replay()
            if step % 40 == 39:
                hottest.append(self.mesh.temperature.amax())
        return torch.stack(hottest)


@torch.no_grad()
def main() -> None:
    device = torch.device("cuda")
    solver = Solver(Mesh(torch.zeros(1, 1, COARSE, COARSE, device=device)))
    history = [solver.run(STEPS)]
    for _ in range(LEVELS - 1):
        solver.adopt(solver.mesh.refined())
        history.append(solver.run(STEPS))
    for level, hottest in enumerate(history):
        print(COARSE << level, [round(value, 4) for value in hottest.tolist()])


if __name__ == "__main__":
    main()
