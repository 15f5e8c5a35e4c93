"""Model-predictive path integral control of a planar drone with a slung load."""
import random
from dataclasses import dataclass

import torch


@dataclass
class PlannerConfig:
    samples: int = 256
    horizon: int = 18
    dt: float = 0.05
    temperature: float = 0.6
    sigma: float = 0.35
    payload: float = 0.4


class Drone:
    """State: x, z, vx, vz, swing, swing rate. Control: two accelerations."""

    def __init__(self, cfg: PlannerConfig, device: torch.device):
        self.cfg = cfg
        self.gravity = torch.zeros(2, device=device)
        self.gravity[1:].fill_(9.81)

    def step(self, state: torch.Tensor, control: torch.Tensor) -> torch.Tensor:
        position, velocity = state[..., 0:2], state[..., 2:4]
        swing, rate = state[..., 4:5], state[..., 5:6]
        pull = self.cfg.payload * torch.cat([swing.sin(), 1 - swing.cos()], dim=-1)
        acceleration = control - self.gravity * 0.05 - pull
        velocity = velocity + self.cfg.dt * acceleration
        position = position + self.cfg.dt * velocity
        rate = 0.99 * rate - self.cfg.dt * (9.81 * swing.sin() + acceleration[..., 0:1] * swing.cos())
        return torch.cat([position, velocity, swing + self.cfg.dt * rate, rate], dim=-1)


class Route:
    def __init__(self, waypoints):
        self.waypoints = waypoints
        self.leg = 0

    def current(self):
        return self.waypoints[self.leg]


class Planner:
    def __init__(self, cfg: PlannerConfig, route: Route, obstacles: torch.Tensor, device: torch.device):
        self.cfg, self.route, self.device = cfg, route, device
        self.drone = Drone(cfg, device)
        self.obstacles = obstacles
        self.mean = torch.zeros(cfg.horizon, 2, device=device)
        self.tail = torch.zeros(1, 2, device=device)

    def stage_cost(self, state: torch.Tensor) -> torch.Tensor:
        goal = torch.tensor(self.route.current(), device=self.device)
        reach = (state[..., 0:2] - goal).square().sum(-1)
        gap = torch.cdist(state[..., 0:2], self.obstacles).amin(-1)
        return reach + 40.0 * torch.relu(0.5 - gap) + 0.3 * state[..., 4].square()

    def sample(self) -> torch.Tensor:
        shape = (self.cfg.samples, self.cfg.horizon, 2)
        spread = self.cfg.sigma * random.choice((0.5, 1.0, 2.0))
        return spread * torch.randn(shape, device=self.device)

    def rollout(self, state: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
        states = state.expand(self.cfg.samples, -1)
        total = torch.zeros(self.cfg.samples, device=self.device)
        for t in range(self.cfg.horizon):
            states = self.drone.step(states, controls[:, t])
            total = total + self.stage_cost(states) + 0.01 * controls[:, t].square().sum(-1)
        return total

    def combine(self, cost: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        order = cost.argsort()
        useful = (cost < cost.median()).sum()
        elite = order[:useful]
        weight = torch.softmax(-(cost[elite] - cost.amin()) / self.cfg.temperature, dim=0)
        return torch.einsum("k,kha->ha", weight, noise[elite])

    @torch.no_grad()
    def act(self, state: torch.Tensor):
        noise = self.sample()
        cost = self.rollout(state, self.mean.unsqueeze(0) + noise)
        improved = (self.mean + self.combine(cost, noise)).clamp(-3.0, 3.0)
        command = improved[0].clone()
        self.mean = torch.cat([improved[1:], self.tail])
        return command, cost.mean()


def build(device):
    cfg = PlannerConfig()
    route = Route([(2.0, 1.0), (4.0, 1.5), (5.0, 0.5)])
    obstacles = torch.tensor([[1.0, 0.6], [1.4, 1.3], [3.0, 1.1]], device=device)
    planner = Planner(cfg, route, obstacles, device)
    state = torch.zeros(6, device=device)
    state[0:2].uniform_(-0.1, 0.1)
    state[4:5].fill_(0.05)
    return planner.act, (state,)
