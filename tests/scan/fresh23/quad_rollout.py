"""Short-horizon actor-critic through a differentiable quadrotor: rollout, gradient and update in one step."""
import torch
from torch import nn


class Quad2D:
    """State: x, z, angle, vx, vz, spin; actions are two thrusts."""

    def __init__(self, num, device, dt=0.05, limit=60):
        self.dt, self.limit = dt, limit
        self.state = torch.zeros(num, 6, device=device)
        self.goal = torch.zeros(num, 2, device=device)
        self.age = torch.zeros(num, dtype=torch.long, device=device)
        self.resets = torch.zeros((), dtype=torch.long, device=device)
        self.gravity = torch.tensor([0.0, 0.0, 0.0, 0.0, -9.81, 0.0], device=device)
        self.respawn(torch.ones(num, dtype=torch.bool, device=device))

    @torch.no_grad()
    def respawn(self, which):
        start = torch.rand_like(self.state).sub_(0.5)
        self.state.copy_(torch.where(which[:, None], start, self.state))
        self.goal.copy_(torch.where(which[:, None], start[:, :2] + 0.3, self.goal))
        self.age.masked_fill_(which, 0)
        self.resets.add_(which.sum())

    def dynamics(self, s, u):
        thrust = 9.81 * 0.5 * (1.0 + u)
        total = thrust.sum(1)
        sin, cos = s[:, 2].sin(), s[:, 2].cos()
        zero = torch.zeros_like(total)
        ds = torch.stack([s[:, 3], s[:, 4], s[:, 5], -total * sin, total * cos, (thrust[:, 1] - thrust[:, 0]) * 2.0], 1)
        return s + self.dt * (ds + self.gravity + zero[:, None])

    def cost(self, s, u):
        return (s[:, :2] - self.goal).square().sum(1) + 0.1 * s[:, 2].square() + 0.01 * u.square().sum(1)


class ShortHorizon:
    def __init__(self, device, num=32, horizon=5, gamma=0.98):
        torch.manual_seed(14)
        self.env = Quad2D(num, device)
        self.actor = nn.Sequential(nn.Linear(8, 32), nn.ELU(), nn.Linear(32, 2), nn.Tanh()).to(device)
        self.critic = nn.Sequential(nn.Linear(8, 32), nn.ELU(), nn.Linear(32, 1)).to(device)
        self.slow = nn.Sequential(nn.Linear(8, 32), nn.ELU(), nn.Linear(32, 1)).to(device).requires_grad_(False)
        self.slow.load_state_dict(self.critic.state_dict())
        self.opt = torch.optim.Adam(
            [*self.actor.parameters(), *self.critic.parameters()], lr=torch.tensor(1e-3, device=device), capturable=True
        )
        self.horizon, self.gamma = horizon, gamma

    def observe(self, s):
        return torch.cat([s, self.env.goal], 1)

    def __call__(self, exploration):
        env, s = self.env, self.env.state.clone()
        total, discount, visited = torch.zeros_like(s[:, 0]), 1.0, []
        for _ in range(self.horizon):
            visited.append(self.observe(s).detach())
            u = self.actor(self.observe(s))
            u = (u + exploration * torch.randn_like(u)).clamp(-1, 1)
            s = env.dynamics(s, u)
            total = total + discount * env.cost(s, u)
            discount *= self.gamma
        bootstrap = self.slow(self.observe(s)).squeeze(1)
        actor_loss = (total + discount * bootstrap).mean()
        target = (total + discount * bootstrap).detach()
        critic_loss = (self.critic(visited[0]).squeeze(1) - target).square().mean()
        self.opt.zero_grad(set_to_none=True)
        (actor_loss + critic_loss).backward()
        nn.utils.clip_grad_norm_(self.actor.parameters(), 1.0)
        self.opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.slow.parameters()), list(self.critic.parameters()), 0.05)
            env.state.copy_(s)
            env.age.add_(self.horizon)
            lost = (s[:, :2].abs().amax(1) > 3.0) | (env.age > env.limit)
            env.respawn(lost)
        return actor_loss.detach(), lost.float().mean()


def build_rollout(device):
    trainer = ShortHorizon(device)
    exploration = torch.full((32, 1), 0.1, device=device)
    return trainer, (exploration,)
