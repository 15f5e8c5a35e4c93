"""Preconditioned conjugate gradients for a screened Poisson system on a grid."""
import torch
import torch.nn.functional as F


class StencilOperator:
    def __init__(self, n, screen, device):
        kernel = torch.tensor([[0.0, -1.0, 0.0], [-1.0, 4.0, -1.0], [0.0, -1.0, 0.0]])
        self.kernel = kernel.view(1, 1, 3, 3).to(device)
        self.screen = screen
        self.n = n

    def __call__(self, x):
        return F.conv2d(x, self.kernel, padding=1) + self.screen * x


class CoarseCorrection:
    """Solves the restriction of the system on a coarse grid."""

    def __init__(self, op, factor, device):
        self.factor = factor
        m = op.n // factor
        eye = torch.eye(m * m, device=device).view(m * m, 1, m, m)
        coarse = StencilOperator(m, op.screen, device)
        self.matrix = coarse(eye).view(m * m, m * m)
        self.m = m

    def apply(self, r):
        rc = F.avg_pool2d(r, self.factor)
        z = torch.linalg.solve(self.matrix, rc.reshape(-1, 1))
        return F.interpolate(z.view(1, 1, self.m, self.m), scale_factor=self.factor) + 0.25 * r


class ConjugateGradient:
    def __init__(self, op, precond, max_iter=40, rtol=1e-5):
        self.op = op
        self.precond = precond
        self.max_iter = max_iter
        self.rtol = rtol

    def _converged(self, r, target):
        return torch.linalg.vector_norm(r) <= target

    def solve(self, b, x):
        r = b - self.op(x)
        z = self.precond.apply(r)
        p = z
        rz = (r * z).sum()
        target = self.rtol * torch.linalg.vector_norm(b)
        for _ in range(self.max_iter):
            ap = self.op(p)
            alpha = rz / (p * ap).sum()
            x = x + alpha * p
            r = r - alpha * ap
            if self._converged(r, target):
                break
            z = self.precond.apply(r)
            rz_new = (r * z).sum()
            p = z + (rz_new / rz) * p
            rz = rz_new
        return x


def build(device):
    torch.manual_seed(1)
    op = StencilOperator(32, 0.1, device)
    solver = ConjugateGradient(op, CoarseCorrection(op, 4, device))
    b = torch.randn(1, 1, 32, 32, device=device)
    x0 = torch.zeros_like(b)
    return solver.solve, (b, x0)
