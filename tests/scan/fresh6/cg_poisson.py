"""Block-preconditioned conjugate gradients for a variable-coefficient Poisson problem."""
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
    """Solves each grid line exactly."""

    def __init__(self, op):
        self.op = op
        n = op.n
        eye = torch.eye(n, device=op.coeff.device)
        off = torch.diag(torch.ones(n - 1, device=op.coeff.device), 1)
        self.line = 4 * eye - off - off.T

    def __call__(self, r):
        n = self.op.n
        blocks = self.op.coeff[:, :1, None] * self.line + 0.1 * torch.eye(n, device=r.device)
        return (torch.linalg.inv(blocks) @ r.view(n, n, 1)).reshape(-1)


class ConjugateGradient:
    def __init__(self, op, precond, tol=1e-5, max_iter=60):
        self.op = op
        self.precond = precond
        self.tol = tol
        self.max_iter = max_iter
        self.guess = torch.zeros(op.n * op.n, device=op.coeff.device)
        self.norms = []

    def _iterate(self, x, b):
        r = b - self.op(x)
        z = self.precond(r)
        p = z
        rz = r @ z
        it = 0
        while r.norm() > self.tol and it < self.max_iter:
            ap = self.op(p)
            alpha = rz / (p @ ap)
            x = x + alpha * p
            r = r - alpha * ap
            z = self.precond(r)
            rz_new = r @ z
            p = z + (rz_new / rz) * p
            rz = rz_new
            it += 1
        return x, r

    @torch.no_grad()
    def solve(self, b):
        x, r = self._iterate(self.guess, b)
        self.guess = x
        self.norms.append(float(r.norm()))
        return x


def build(device):
    torch.manual_seed(5)
    n = 24
    coeff = 0.5 + torch.rand(n, 1, device=device).expand(n, n).contiguous()
    op = PoissonOperator(coeff)
    solver = ConjugateGradient(op, LineJacobi(op))
    b = torch.randn(n * n, device=device)
    return solver.solve, (b,)
