"""Rollout of a small world model; the trajectory is summarised on the host."""
import numpy as np
import torch
from torch import nn

DEV = torch.device("cuda")
STATE, ACT, HORIZON, ENVS = 24, 6, 32, 10


class World(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(STATE + ACT, 96), nn.ELU(), nn.Linear(96, STATE))

    def forward(self, state, action):
        return state + 0.1 * self.net(torch.cat((state, action), dim=-1))


class Rollout:
    def __init__(self, world):
        self.world = world
        self.state = torch.zeros(ENVS, STATE, device=DEV)
        self.action = torch.zeros(ENVS, ACT, device=DEV)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()
        self.state.zero_()

    def step(self):
        self.state.copy_(self.world(self.state, self.action))

    def run(self, actions):
        trace = torch.empty(HORIZON, ENVS, STATE, device=DEV)
        for t in range(HORIZON):
            self.action.copy_(actions[t])
            self.graph.replay()
            trace[t].copy_(self.state)
        return trace.cpu().numpy()


@torch.no_grad()
def main():
    torch.manual_seed(16)
    rollout = Rollout(World().to(DEV).eval())
    gen = torch.Generator(device=DEV).manual_seed(3)
    actions = torch.randn(HORIZON, ENVS, ACT, device=DEV, generator=gen)
    trace = rollout.run(actions)
    spread = trace.std(axis=1).mean()
    drift = np.abs(np.diff(trace, axis=0)).mean()
    print(round(float(spread + drift), 5))


if __name__ == "__main__":
    main()
