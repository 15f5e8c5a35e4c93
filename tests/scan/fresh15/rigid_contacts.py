"""Rigid discs on a floor: contacts are solved until they settle, joints with a small dense system."""

import torch

DISCS, DT = 24, 0.01


class World:
    def __init__(self, device):
        self.place = torch.rand(DISCS, 2, device=device) * 4 + 0.5
        self.speed = torch.zeros(DISCS, 2, device=device)
        self.gravity = torch.tensor([0.0, -9.8], device=device)
        self.joints = torch.eye(DISCS, device=device) * 2 + 0.1 * torch.rand(DISCS, DISCS, device=device)
        self.aux = torch.cuda.Stream(device)
        self.energy = torch.zeros((), device=device)

    def penetration(self):
        gap = self.place[:, None] - self.place[None]
        distance = gap.norm(dim=-1) + 1e-6
        depth = (0.4 - distance).clamp(min=0).fill_diagonal_(0)
        return gap / distance.unsqueeze(-1), depth

    def settle(self, tolerance=0.02, rounds=30):
        for _ in range(rounds):
            normal, depth = self.penetration()
            self.place.add_((normal * depth.unsqueeze(-1)).sum(1) * 0.25)
            if depth.max() < tolerance:
                break

    def measure(self):
        current = torch.cuda.current_stream(self.place.device)
        self.aux.wait_stream(current)
        with torch.cuda.stream(self.aux):
            self.energy.copy_(0.5 * self.speed.square().sum())

    def joint_force(self, push):
        return torch.linalg.solve(self.joints, push)

    def step(self, push):
        self.speed.add_(self.gravity + self.joint_force(push), alpha=DT)
        self.place.add_(self.speed, alpha=DT)
        below = self.place[:, 1] < 0.2
        self.speed[:, 1].mul_(1.0 - 1.5 * below)
        self.place[:, 1].clamp_(min=0.2)
        self.settle()
        self.measure()
        return self.place.clone()


def build(device):
    torch.manual_seed(4)
    world = World(device)
    return world.step, (torch.randn(DISCS, 2, device=device),)
