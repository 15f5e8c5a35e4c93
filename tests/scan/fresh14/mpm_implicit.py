"""A soft body of springs, stepped implicitly: each step solves one linear system."""

import torch


class Springs:
    def __init__(self, side, device, stiffness=40.0):
        ticks = torch.linspace(0, 1, side, device=device)
        self.rest = torch.cartesian_prod(ticks, ticks)
        number = torch.arange(side * side, device=device).view(side, side)
        self.pairs = torch.cat(
            [
                torch.stack([number[:-1].flatten(), number[1:].flatten()]),
                torch.stack([number[:, :-1].flatten(), number[:, 1:].flatten()]),
            ],
            1,
        )
        self.stiffness = stiffness
        first, second = self.pairs
        self.length = (self.rest[first] - self.rest[second]).norm(dim=1)

    def force(self, place):
        first, second = self.pairs
        gap = place[second] - place[first]
        length = gap.norm(dim=1, keepdim=True).clamp(min=1e-4)
        pull = self.stiffness * (length - self.length.unsqueeze(1)) * gap / length
        total = torch.zeros_like(place)
        return total.index_add(0, first, pull).index_add(0, second, -pull)

    def laplacian(self):
        count = self.rest.shape[0]
        first, second = self.pairs
        matrix = torch.zeros(count, count, device=self.rest.device)
        one = torch.ones(first.shape[0], device=self.rest.device)
        matrix.index_put_((first, second), -one).index_put_((second, first), -one)
        return torch.diag(-matrix.sum(1)) + matrix


class Body:
    def __init__(self, device, side=6, dt=0.02):
        self.springs = Springs(side, device)
        self.place = self.springs.rest.clone()
        self.speed = torch.zeros_like(self.place)
        self.dt = dt
        eye = torch.eye(self.place.shape[0], device=device)
        self.system = eye + dt * dt * self.springs.stiffness * self.springs.laplacian()
        self.noise = torch.Generator(device).manual_seed(5)

    def step(self, gravity):
        shake = 0.01 * torch.randn(self.place.shape, device=self.place.device, generator=self.noise)
        force = self.springs.force(self.place) + gravity + shake
        target = self.speed + self.dt * force
        speed = torch.linalg.solve(self.system, target)
        floor = self.place[:, 1:] < -1.0
        speed = torch.where(floor, speed * 0.2, speed)
        self.speed = speed
        self.place.add_(self.dt * speed)
        return self.place.mean(0), 0.5 * speed.square().sum()


def build(device):
    torch.manual_seed(25)
    body = Body(device)
    return body.step, (torch.tensor([0.0, -1.0], device=device),)
