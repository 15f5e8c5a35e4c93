"""Block-preconditioned conjugate gradients with a fixed number of sweeps."""
import torch
import torch.nn.functional as F


class PoissonOperator:
    """Five-point stencil with cell coefficients; Dirichlet walls."""

    def __init__(self, coeff):
        self.coeff = coeff
        self.n = coeff.shape[-1]

    def __call__(self, u):
        grid = u.view(self.n, self.n)
        pad = F.pad(grid, (1, 1, 1, 1))
        lap = 4 * grid - pad[:-2, 1:-1] - pad[2:, 1:-1] - pad[1:-1, :-2] - pad[1:-1, 2:]
        return (self.coeff * lap + 0.1 * grid).reshape(-1)


class LineJacobi:
    """Solves each grid line exactly; lines are inverted once."""

    def __init__(self, op):
        n = op.n
        eye = torch.eye(n, device=op.coeff.device)
        off = torch.diag(torch.ones(n - 1, device=op.coeff.device), 1)
        line = 4 * eye - off - off.T
        self.n = n
        self.inverse = torch.linalg.inv(op.coeff[:, :1, None] * line + 0.1 * eye)

    def __call__(self, r):
        return (self.inverse @ r.view(self.n, self.n, 1)).reshape(-1)


class ConjugateGradient:
    def __init__(self, op, precond, tol=1e-5, sweeps=40):
        self.op = op
        self.precond = precond
        self.tol = tol
        self.sweeps = sweeps
        self.guess = torch.zeros(op.n * op.n, device=op.coeff.device)
        self.norm = torch.zeros((), device=op.coeff.device)

    def _iterate(self, x, b):
        r = b - self.op(x)
        z = self.precond(r)
        p = z
        rz = r @ z
        zero = rz.new_zeros(())
        for _ in range(self.sweeps):
            live = r.norm() > self.tol
            ap = self.op(p)
            alpha = torch.where(live, rz / (p @ ap), zero)
            x = x + alpha * p
            r = r - alpha * ap
            z = self.precond(r)
            rz_new = r @ z
            beta = torch.where(live, rz_new / rz, zero)
            p = z + beta * p
            rz = torch.where(live, rz_new, rz)
        return x, r

    @torch.no_grad()
    def solve(self, b):
        x, r = self._iterate(self.guess, b)
        self.guess.copy_(x)
        self.norm.copy_(r.norm())
        return x


def build(device):
    torch.manual_seed(5)
    n = 24
    coeff = 0.5 + torch.rand(n, 1, device=device).expand(n, n).contiguous()
    op = PoissonOperator(coeff)
    solver = ConjugateGradient(op, LineJacobi(op))
    b = torch.randn(n * n, device=device)
    return solver.solve, (b,)
