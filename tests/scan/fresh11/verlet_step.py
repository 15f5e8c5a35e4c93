"""One velocity-Verlet step of a spring network; the state is advanced in place."""
import abc

import torch


class ForceField(abc.ABC):
    @abc.abstractmethod
    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...


class Springs(ForceField):
    def __init__(self, left, right, rest, stiffness: float):
        self.left, self.right, self.rest, self.stiffness = left, right, rest, stiffness

    def __call__(self, x):
        delta = x.index_select(0, self.right) - x.index_select(0, self.left)
        length = delta.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        pull = self.stiffness * (length - self.rest) * delta / length
        force = torch.zeros_like(x)
        force.index_copy_(0, self.left, pull)
        return force - force.roll(1, 0)


class Integrator:
    def __init__(self, field: ForceField, x, v, dt: float, damping: float = 0.0):
        self.field, self.dt, self.damping = field, dt, damping
        self.x, self.v = x, v
        self.force = field(x)
        self.steps = torch.zeros((), dtype=torch.long, device=x.device)

    def __call__(self, wind):
        half = 0.5 * self.dt
        self.v.add_(self.force + wind, alpha=half)
        self.x.add_(self.v, alpha=self.dt)
        self.force.copy_(self.field(self.x))
        self.v.add_(self.force + wind, alpha=half)
        if self.damping > 0:
            self.v.mul_(1.0 - self.damping * self.dt)
        self.steps.add_(1)
        return self.x.clone(), self.v.square().sum() * 0.5


def build(device):
    torch.manual_seed(56)
    n = 16
    left = torch.arange(n, device=device)
    right = left.roll(-1)
    x = torch.randn(n, 2, device=device)
    field = Springs(left, right, torch.full((n, 1), 0.5, device=device), stiffness=3.0)
    step = Integrator(field, x, torch.zeros_like(x), dt=0.02, damping=0.1)
    return step, (0.1 * torch.randn(n, 2, device=device),)


if __name__ == "__main__":
    fn, args = build(torch.device("cuda"))
    for _ in range(4):
        print(fn(*args)[1].item())
