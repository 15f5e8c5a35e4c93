"""Sampling-based control of a cart-pole: one captured planning step in closed loop with a simulated plant."""
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class PlannerConfig:
    samples: int = 64
    horizon: int = 12
    dt: float = 0.04
    noise: float = 1.5
    temperature: float = 0.5
    limit: float = 4.0


class CartPole:
    """State is (x, x', angle, angle'), any leading shape."""

    def __init__(self, dt, pole_mass=0.1, length=0.5):
        self.dt, self.m, self.l = dt, pole_mass, length

    def derivative(self, s, force):
        sin, cos = s[..., 2].sin(), s[..., 2].cos()
        total = 1.0 + self.m
        tmp = (force + self.m * self.l * s[..., 3].square() * sin) / total
        angular = (9.81 * sin - cos * tmp) / (self.l * (4 / 3 - self.m * cos.square() / total))
        linear = tmp - self.m * self.l * angular * cos / total
        return torch.stack([s[..., 1], linear, s[..., 3], angular], -1)

    def advance(self, s, force):
        return s + self.dt * self.derivative(s, force)


class Cost:
    def __init__(self, device):
        self.weight = torch.tensor([1.0, 0.1, 8.0, 0.2], device=device)
        self.goal = torch.zeros(4, device=device)

    def __call__(self, s):
        return ((s - self.goal).square() * self.weight).sum(-1)


class Mppi:
    def __init__(self, cfg, device):
        self.cfg = cfg
        self.device = device
        self.model = CartPole(cfg.dt)
        self.cost = Cost(device)
        self.state = torch.zeros(4, device=device)
        self.plan = torch.zeros(cfg.horizon, device=device)
        self.action = torch.zeros(1, device=device)
        self.gen = torch.Generator(device)
        self.noise = torch.zeros(cfg.samples, cfg.horizon, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.gen)

    def _plan(self):
        cfg = self.cfg
        self.noise.normal_(generator=self.gen)
        tried = (self.plan + cfg.noise * self.noise).clamp(-cfg.limit, cfg.limit)
        s = self.state.expand(cfg.samples, 4)
        total = torch.zeros(cfg.samples, device=self.device)
        for t in range(cfg.horizon):
            s = self.model.advance(s, tried[:, t])
            total = total + self.cost(s) + 0.01 * tried[:, t].square()
        weight = torch.softmax(-(total - total.min()) / cfg.temperature, 0)
        best = weight @ tried
        self.action.copy_(best[:1])
        self.plan.copy_(torch.cat([best[1:], best[-1:]]))

    def capture(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self._plan()
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self._plan()
        return self

    def reset(self, seed):
        self.gen.manual_seed(seed)
        self.plan.zero_()

    def set_goal(self, position):
        self.cost.goal[:1].fill_(position)

    def command(self, state):
        self.state.copy_(state)
        self.graph.replay()
        return self.action


class Plant:
    """The 'real' system, with a heavier pole than the planner believes."""

    def __init__(self, device, dt):
        self.dynamics = CartPole(dt, pole_mass=0.13)
        self.state = torch.zeros(4, device=device)

    def reset(self, angle):
        self.state = torch.zeros_like(self.state)
        self.state[2:3].fill_(angle)

    def apply(self, force):
        self.state = self.dynamics.advance(self.state, force[0])
        return self.state


class Episode:
    def __init__(self, planner, plant, steps):
        self.planner, self.plant, self.steps = planner, plant, steps
        self.states = torch.zeros(steps, 4, device=planner.device)
        self.actions = torch.zeros(steps, 1, device=planner.device)

    def run(self, seed, angle, goal):
        self.planner.reset(seed)
        self.planner.set_goal(goal)
        self.plant.reset(angle)
        for i in range(self.steps):
            force = self.planner.command(self.plant.state)
            self.actions[i].copy_(force)
            self.states[i].copy_(self.plant.apply(force))
        return self.states.cpu(), self.actions.cpu()


@torch.no_grad()
def main():
    device = torch.device("cuda")
    cfg = PlannerConfig()
    episode = Episode(Mppi(cfg, device).capture(), Plant(device, cfg.dt), 40)
    for seed, angle, goal in ((1, 0.2, 0.0), (2, -0.15, 0.5), (1, 0.2, 0.0)):
        states, actions = episode.run(seed, angle, goal)
        print(seed, "final", [round(v, 3) for v in states[-1].tolist()], "effort", round(actions.abs().mean().item(), 3))


if __name__ == "__main__":
    main()
