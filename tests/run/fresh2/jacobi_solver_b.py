"""Damped Jacobi solver: one sweep is a graph, swept until the residual is small or the budget is out."""
import torch

DEV = torch.device("cuda")
N, SWEEPS, TOL = 160, 30, 1e-12


class Solver:
    def __init__(self):
        gen = torch.Generator().manual_seed(13)
        noise = torch.randn(N, N, generator=gen)
        self.a = (torch.eye(N) * 8 + (noise + noise.t()) / 12).to(DEV)
        self.b = torch.ones(N, device=DEV)
        self.inv_diag = self.a.diagonal().reciprocal()
        self.x = torch.zeros(N, device=DEV)
        self.residual = torch.ones((), device=DEV)
        self.sweeps = torch.zeros((), device=DEV)

    def sweep(self):
        r = self.b - self.a @ self.x
        self.x.add_(r * self.inv_diag, alpha=0.1)
        self.residual.copy_(r.norm())
        self.sweeps.add_((self.residual > TOL).float())

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.sweep()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.sweep()

    def reset(self, b):
        self.b.copy_(b)
        self.x.zero_()
        self.residual.fill_(1.0)
        self.sweeps.zero_()

    def solve(self, b):
        self.reset(b)
        for _ in range(SWEEPS):
            self.graph.replay()
        return self.x.sum() + self.sweeps


@torch.no_grad()
def main():
    solver = Solver()
    solver.capture()
    gen = torch.Generator(device=DEV).manual_seed(2)
    answer = torch.zeros((), device=DEV)
    for _ in range(2):
        b = torch.randn(N, device=DEV, generator=gen)
        answer += solver.solve(b)
    print(round(float(answer), 5))


main()
