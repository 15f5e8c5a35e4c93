"""A scalar field on a rectangular mesh, and what every time stepper shares."""
import torch


class Field:
    def __init__(self, rows: int, cols: int, device: torch.device, hot: float = 1.0):
        self.rows, self.cols = rows, cols
        self.device = device
        self.u = torch.zeros(rows * cols, dtype=torch.float64, device=device)
        self.heat = torch.zeros(rows * cols, dtype=torch.float64, device=device)
        self.flux = torch.zeros((), dtype=torch.float64, device=device)
        self.rim = torch.tensor(
            [r * cols + c for r in range(rows) for c in range(cols) if r in (0, rows - 1) or c in (0, cols - 1)]
        )
        middle = (rows // 2) * cols + cols // 2
        self.heat[middle : middle + 1].fill_(hot)

    def laplacian(self) -> torch.Tensor:
        n = self.rows * self.cols
        lap = torch.zeros(n, n, dtype=torch.float64)
        for r in range(self.rows):
            for c in range(self.cols):
                here = r * self.cols + c
                lap[here, here] = -4.0
                for dr, dc in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                    rr, cc = r + dr, c + dc
                    if 0 <= rr < self.rows and 0 <= cc < self.cols:
                        lap[here, rr * self.cols + cc] = 1.0
        return lap.to(self.device)

    def measure(self) -> None:
        edge = self.u[self.rim]
        self.flux.copy_(edge.abs().mean())

    def march(self) -> None:
        raise NotImplementedError
