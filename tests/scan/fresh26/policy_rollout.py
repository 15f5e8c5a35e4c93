"""Rolls a reaching policy out in a batched simulator; one graph holds control and physics."""
import torch
from torch import nn


class ReachWorld:
    def __init__(self, count, device, dt=0.05):
        self.pos = torch.zeros(count, 3, device=device)
        self.vel = torch.zeros(count, 3, device=device)
        self.goal = torch.zeros(count, 3, device=device)
        self.dt = dt

    def observe(self):
        return torch.cat([self.pos, self.vel, self.goal - self.pos], dim=-1)

    def advance(self, force):
        self.vel.mul_(0.98).add_(force, alpha=self.dt)
        self.pos.add_(self.vel, alpha=self.dt)
        return -(self.goal - self.pos).norm(dim=-1)

    def restart(self):
        self.pos.normal_()
        self.vel.zero_()
        self.goal.normal_()


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(9, 32), nn.Tanh(), nn.Linear(32, 3))

    def forward(self, obs):
        return self.net(obs)


class Rollout:
    def __init__(self, world, policy, horizon, device):
        self.world = world
        self.policy = policy
        count = world.pos.shape[0]
        self.noise = torch.full((), 0.3, device=device)
        self.cursor = torch.zeros(1, dtype=torch.long, device=device)
        self.rewards = torch.zeros(horizon, count, device=device)
        self.horizon = horizon
        self.graph = torch.cuda.CUDAGraph()

    @torch.no_grad()
    def _tick(self):
        force = self.policy(self.world.observe())
        force = force + self.noise * torch.randn_like(force)
        reward = self.world.advance(force.clamp(-2.0, 2.0))
        self.rewards.index_copy_(0, self.cursor, reward.unsqueeze(0))
        self.cursor.add_(1).remainder_(self.horizon)

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._tick()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self._tick()

    def run(self, noise):
        self.world.restart()
        self.cursor.zero_()
        self.noise.fill_(noise)
        for _ in range(self.horizon):
            self.graph.replay()
        return self.rewards.mean(dim=0)


def main():
    device = torch.device("cuda")
    torch.manual_seed(3)
    policy = Policy().to(device)
    rollout = Rollout(ReachWorld(16, device), policy, horizon=12, device=device)
    rollout.capture()
    best = None
    trial = [p.detach().clone() for p in policy.parameters()]
    for generation in range(4):
        score = rollout.run(0.3 * 0.7 ** generation).mean()
        value = score.item()
        print(generation, f"{value:.4f}")
        if best is None or value > best:
            best = value
            for kept, p in zip(trial, policy.parameters()):
                kept.copy_(p.detach())
        with torch.no_grad():
            for kept, p in zip(trial, policy.parameters()):
                p.copy_(kept + 0.02 * torch.randn_like(kept))


if __name__ == "__main__":
    main()
