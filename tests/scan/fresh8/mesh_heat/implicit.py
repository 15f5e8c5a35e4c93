import torch

from .field import Field


class BackwardEuler(Field):
    """(I - dt L) u' = u + dt q"""

    def __init__(self, rows: int, cols: int, dt: float, device: torch.device):
        super().__init__(rows, cols, device)
        self.dt = dt
        eye = torch.eye(rows * cols, dtype=torch.float64, device=device)
        self.system = eye - dt * self.laplacian()
        self.before = torch.zeros_like(self.u)
        self.change = torch.zeros((), dtype=torch.float64, device=device)

    def march(self) -> None:
        right = self.u + self.dt * self.heat
        after = torch.linalg.solve(self.system, right)
        self.change.copy_((after - self.u).abs().max())
        self.before, self.u = self.u, after
        self.measure()
