"""Many point masses that chase a goal, all on one device."""
import torch


class Chase:
    def __init__(self, count: int, device: torch.device, dt: float = 0.05):
        self.count = count
        self.dt = dt
        self.pos = torch.zeros(count, 2, device=device)
        self.vel = torch.zeros(count, 2, device=device)
        self.goal = torch.zeros(count, 2, device=device)
        self.age = torch.zeros(count, device=device)

    def observe(self, out: torch.Tensor) -> None:
        torch.cat([self.pos, self.vel, self.goal], dim=1, out=out)

    def apply(self, force: torch.Tensor):
        self.vel.add_(force.clamp(-1, 1), alpha=self.dt).mul_(0.98)
        self.pos.add_(self.vel, alpha=self.dt)
        self.age.add_(1)
        gap = (self.goal - self.pos).norm(dim=1)
        over = (gap < 0.1) | (self.age > 400)
        return -gap, over

    def restart(self, where: torch.Tensor) -> None:
        keep = (~where).to(self.pos.dtype)
        self.pos.mul_(keep[:, None])
        self.vel.mul_(keep[:, None])
        self.age.mul_(keep)
