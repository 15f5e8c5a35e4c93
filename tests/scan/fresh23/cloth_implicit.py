"""Implicit cloth step: mass-spring grid, backward Euler, a few conjugate-gradient iterations."""
import math

import torch


def grid_springs(n):
    def idx(i, j):
        return i * n + j

    pairs = []
    for i in range(n):
        for j in range(n):
            if i + 1 < n:
                pairs.append((idx(i, j), idx(i + 1, j)))
            if j + 1 < n:
                pairs.append((idx(i, j), idx(i, j + 1)))
            if i + 1 < n and j + 1 < n:
                pairs.append((idx(i, j), idx(i + 1, j + 1)))
    return torch.tensor(pairs)


class Cloth:
    def __init__(self, n, device, dt=1 / 60, stiffness=400.0, mass=0.02):
        self.dt, self.k, self.m = dt, stiffness, mass
        edges = grid_springs(n).to(device)
        self.a, self.b = edges[:, 0].contiguous(), edges[:, 1].contiguous()
        ii, jj = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
        self.pos = torch.stack([ii.flatten() / n, jj.flatten() / n, torch.zeros(n * n)], 1).to(device)
        self.vel = torch.zeros_like(self.pos)
        self.rest = (self.pos[self.a] - self.pos[self.b]).norm(dim=1)
        self.corners = [0, n - 1]
        self.anchor = self.pos[self.corners].clone()
        self.clock = 0.0
        self.tol = 1e-6

    def wind(self):
        self.clock += self.dt
        return 0.6 * math.sin(2.1 * self.clock) + 0.2 * math.sin(7.3 * self.clock)

    def forces(self, pos, gust):
        d = pos[self.b] - pos[self.a]
        length = d.norm(dim=1, keepdim=True).clamp_min(1e-6)
        pull = self.k * (length - self.rest[:, None]) * d / length
        f = torch.zeros_like(pos).index_add_(0, self.a, pull).index_add_(0, self.b, -pull)
        f[:, 2] -= 9.81 * self.m
        return f + gust * self.m

    def system(self, v):
        spread = v.index_select(0, self.b) - v.index_select(0, self.a)
        kv = torch.zeros_like(v).index_add_(0, self.a, -spread).index_add_(0, self.b, spread)
        return self.m * v + self.dt * self.dt * self.k * kv

    def solve(self, rhs, iterations=12):
        x = torch.zeros_like(rhs)
        r = rhs.clone()
        p = r.clone()
        rr = (r * r).sum()
        for _ in range(iterations):
            ap = self.system(p)
            alpha = rr / (p * ap).sum()
            x = x + alpha * p
            r = r - alpha * ap
            new = (r * r).sum()
            if float(new) < self.tol * float(rhs.numel()):
                break
            p = r + (new / rr) * p
            rr = new
        return x

    @torch.no_grad()
    def step(self, gust_dir):
        gust = gust_dir * self.wind()
        force = self.forces(self.pos, gust)
        dv = self.solve(self.dt * force)
        self.vel.add_(dv).mul_(0.995)
        self.pos.add_(self.vel, alpha=self.dt)
        self.pos[self.corners] = self.anchor
        self.vel[self.corners] = 0.0
        return self.pos.mean(0), self.vel.square().sum()


def build_cloth(device):
    torch.manual_seed(1)
    cloth = Cloth(6, device)
    gust_dir = torch.randn(3, device=device)
    return cloth.step, (gust_dir,)
