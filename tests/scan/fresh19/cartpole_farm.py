import math

import torch
from torch import nn

G, LENGTH, FORCE = 9.8, 0.5, 10.0


class Farm:
    """Thousands (here: dozens) of cart-poles stepped by one graph together with the policy."""

    def __init__(self, count, device, seed=0):
        self.count, self.device = count, device
        self.state = torch.zeros(count, 4, device=device)
        self.mass = torch.full((count, 1), 1.1, device=device)
        self.done = torch.zeros(count, dtype=torch.bool, device=device)
        self.steps = torch.zeros(count, dtype=torch.int32, device=device)
        self.penalty = 0.01

    def physics(self, push):
        x, v, th, w = self.state.unbind(1)
        force = push * FORCE / self.mass.squeeze(1)
        acc = (G * th.sin() - th.cos() * force) / (LENGTH * (4 / 3 - 0.1 * th.cos() ** 2))
        nxt = torch.stack([x + 0.02 * v, v + 0.02 * (force - 0.05 * acc), th + 0.02 * w, w + 0.02 * acc], 1)
        self.state.copy_(nxt)
        self.steps.add_(1)
        self.done.copy_((nxt[:, 2].abs() > 0.21) | (nxt[:, 0].abs() > 2.4) | (self.steps >= 200))
        return 1.0 - self.penalty * push.square()

    def randomize(self):
        self.mass = 1.0 + 0.3 * torch.rand(self.count, 1, device=self.device)

    def reset_done(self):
        fresh = torch.rand(self.count, 4, device=self.device) * 0.1 - 0.05
        self.state[self.done] = fresh[self.done]
        self.steps.masked_fill_(self.done, 0)


class Actor(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.log_std = nn.Parameter(torch.tensor(-0.5))

    def forward(self, obs):
        mean = self.body(obs).squeeze(1)
        return torch.tanh(mean + self.log_std.exp() * torch.randn_like(mean))


def record(farm, actor, stream):
    def transition():
        obs = farm.state.clone()
        act = actor(obs)
        return obs, act, farm.physics(act)

    with torch.no_grad():
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            transition()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            outs = transition()
    return graph, outs


def collect(farm, graph, outs, horizon):
    buffer = []
    for _ in range(horizon):
        graph.replay()
        buffer.append(outs)
        farm.reset_done()
    obs, act, rew = (torch.stack(col) for col in zip(*buffer))
    return obs, act, rew


def main():
    device = torch.device("cuda")
    torch.manual_seed(0)
    farm = Farm(16, device)
    farm.reset_done()
    actor = Actor().to(device)
    graph, outs = record(farm, actor, torch.cuda.Stream(device))
    returns = []
    for epoch in range(4):
        farm.randomize()
        farm.penalty = 0.01 * math.exp(epoch)
        obs, act, rew = collect(farm, graph, outs, horizon=10)
        returns.append(torch.stack([rew.sum(0).mean(), obs.std(0).mean(), act.std(0).mean()]))
    print(torch.stack(returns).cpu())


if __name__ == "__main__":
    main()
