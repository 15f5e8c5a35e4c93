"""A mass-spring chain with two states that change roles in each substep, as simulation libraries do it; five substeps."""
import torch

import graphsafe


class State:
    def __init__(self, device, n):
        self.q = torch.linspace(0, 1, n).to(device)
        self.v = torch.zeros(n, device=device)


class Solver:
    def __init__(self, stiffness=40.0, damping=0.5):
        self.stiffness, self.damping = stiffness, damping

    def solve(self, before, after, force, dt):
        stretch = before.q[1:] - before.q[:-1] - 0.1
        pull = torch.zeros_like(before.q)
        pull[:-1].add_(stretch, alpha=self.stiffness)
        pull[1:].sub_(stretch, alpha=self.stiffness)
        after.v.copy_(before.v + dt * (pull + force - self.damping * before.v))
        after.q.copy_(before.q + dt * after.v)


class Simulator:
    def __init__(self, device, n=12, substeps=5):
        self.state_0, self.state_1 = State(device, n), State(device, n)
        self.solver, self.substeps = Solver(), substeps

    def step(self, force):
        for _ in range(self.substeps):
            self.solver.solve(self.state_0, self.state_1, force, 0.02)
            self.state_0, self.state_1 = self.state_1, self.state_0
        return torch.cat([self.state_0.q, self.state_0.v])


def build(device):
    simulator = Simulator(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(12))

    return graphsafe.Step(simulator.step, (torch.randn(12, device=device),), refresh=refresh)
