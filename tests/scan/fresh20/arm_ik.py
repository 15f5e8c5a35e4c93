"""Batched inverse kinematics of a planar arm by damped Gauss-Newton."""
import torch
from torch import nn


class PlanarArm(nn.Module):
    def __init__(self, links=(1.0, 0.8, 0.6, 0.4)):
        super().__init__()
        self.register_buffer("links", torch.tensor(links))
        self.register_buffer("upper", torch.tril(torch.ones(len(links), len(links))).t().contiguous())

    def tip(self, q):
        heading = q.cumsum(-1)
        return torch.stack([(self.links * heading.cos()).sum(-1), (self.links * heading.sin()).sum(-1)], -1)

    def jacobian(self, q):
        heading = q.cumsum(-1)
        dx = -(self.links * heading.sin()) @ self.upper.t()
        dy = (self.links * heading.cos()) @ self.upper.t()
        return torch.stack([dx, dy], dim=1)


class Solver(nn.Module):
    def __init__(self, arm, tol=1e-3, most=6, damping=0.05):
        super().__init__()
        self.arm, self.tol, self.most = arm, tol, most
        self.register_buffer("eye", damping * torch.eye(2))

    def forward(self, q, goal):
        error = goal - self.arm.tip(q)
        rounds = 0
        while rounds < self.most and error.norm(dim=-1).max() > self.tol:
            jac = self.arm.jacobian(q)
            gram = jac @ jac.transpose(1, 2) + self.eye
            step = torch.linalg.solve(gram, error[..., None])
            q = q + (jac.transpose(1, 2) @ step).squeeze(-1)
            error = goal - self.arm.tip(q)
            rounds += 1
        return q, error.norm(dim=-1)


def build(device):
    torch.manual_seed(2)
    solver = Solver(PlanarArm()).to(device)
    q = 0.3 * torch.randn(5, 4, device=device)
    goal = torch.rand(5, 2, device=device) + 0.5

    def solve(q, goal):
        with torch.no_grad():
            return solver(q, goal)

    return solve, (q, goal)
