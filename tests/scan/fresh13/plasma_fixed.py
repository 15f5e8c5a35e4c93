"""Electrons in a periodic box, with the grid of fixed size and all state updated in place."""

import torch


class Plasma:
    def __init__(self, device, particles=512, cells=64, length=12.0):
        self.cells = cells
        self.length = length
        self.place = torch.rand(particles, device=device) * length
        self.speed = torch.randn(particles, device=device)
        self.ones = torch.ones(particles, device=device)
        self.field = torch.zeros(cells, device=device)
        wave = 2 * torch.pi * torch.fft.rfftfreq(cells, d=length / cells, device=device)
        self.inverse = torch.where(wave > 0, 1 / wave.clamp(min=1e-6), 0.0)
        self.density = torch.zeros(cells, device=device)

    def deposit(self):
        cell = (self.place / self.length * self.cells).long().clamp(max=self.cells - 1)
        self.density.zero_().index_add_(0, cell, self.ones)
        return cell, self.density * (self.cells / len(self.place))

    def solve(self, density):
        modes = torch.fft.rfft(1 - density) * self.inverse * -1j
        self.field.lerp_(torch.fft.irfft(modes, n=self.cells), 0.2)

    def collide(self, rate):
        self.speed.mul_(1 - rate * (1 + 0.1 * torch.randn_like(self.speed)))

    def step(self, drive, dt=0.1):
        cell, density = self.deposit()
        self.solve(density + drive)
        self.speed.sub_(self.field.index_select(0, cell), alpha=dt)
        self.collide(0.01)
        self.place.add_(self.speed, alpha=dt).remainder_(self.length)
        return self.speed.square().mean(), self.field.square().mean()


def build(device):
    torch.manual_seed(41)
    plasma = Plasma(device)
    drive = 0.1 * torch.sin(torch.linspace(0, 6.28, plasma.cells, device=device))
    return plasma.step, (drive,)
