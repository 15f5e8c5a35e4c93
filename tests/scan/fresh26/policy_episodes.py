"""Domain-randomised point-mass rollouts with a captured policy and physics tick."""
import torch
from torch import nn


class PointWorld:
    def __init__(self, envs, device):
        self.pos = torch.zeros(envs, 2, device=device)
        self.vel = torch.zeros(envs, 2, device=device)
        self.age = torch.zeros(envs, dtype=torch.int32, device=device)
        self.mass = torch.ones(envs, 1, device=device)

    def randomise(self, low, high):
        self.mass.uniform_(low, high)

    def tick(self, force, dt):
        self.vel.add_(force / self.mass * dt).mul_(0.98)
        self.pos.add_(self.vel * dt)
        self.age.add_(1)
        done = (self.pos.norm(dim=-1) > 2.0) | (self.age >= 20)
        keep = (~done).unsqueeze(-1)
        self.pos.mul_(keep)
        self.vel.mul_(keep)
        self.age.mul_(~done)
        return done


class Rollout:
    def __init__(self, world, policy, horizon):
        self.world, self.policy = world, policy
        envs = world.pos.shape[0]
        device = world.pos.device
        self.noise = torch.zeros(envs, 2, device=device)
        self.scale = torch.zeros((), device=device)
        self.trace = torch.zeros(horizon, envs, 2, device=device)
        self.ends = torch.zeros(envs, dtype=torch.int64, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.pos = None

    def step(self):
        obs = torch.cat([self.world.pos, self.world.vel], dim=-1)
        force = self.policy(obs) + self.noise * self.scale
        self.ends.add_(self.world.tick(force, 0.05))
        return self.world.pos.clone()

    @torch.no_grad()
    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph):
            self.pos = self.step()
        for buffer in (self.world.pos, self.world.vel, self.world.age, self.ends):
            buffer.zero_()

    @torch.no_grad()
    def collect(self, scale):
        self.scale.fill_(scale)
        for t in range(self.trace.shape[0]):
            self.noise.normal_()
            self.graph.replay()
            self.trace[t].copy_(self.pos)
        return self.trace.clone()


def main():
    torch.manual_seed(3)
    device = torch.device("cuda")
    world = PointWorld(8, device)
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)
    rollout = Rollout(world, policy, horizon=30)
    rollout.capture()
    for iteration in range(3):
        world.randomise(0.5, 2.0)
        path = rollout.collect(scale=1.0 / (1 + iteration))
        print(iteration, path.std().item(), rollout.ends.sum().item())


if __name__ == "__main__":
    main()
