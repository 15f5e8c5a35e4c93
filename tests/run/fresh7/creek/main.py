"""Recurrent policy in a vectorised environment that lives on the device."""
import torch
from torch import nn

ENVS, OBS, HIDDEN, ACTIONS = 16, 6, 32, 3


class Field:
    """A drifting point that the policy should keep near the origin."""

    def __init__(self, device):
        self.state = torch.zeros(ENVS, OBS, device=device)
        self.push = torch.randn(ACTIONS, OBS).to(device) * 0.1

    def reset(self, start):
        self.state.copy_(start)

    def apply(self, action):
        self.state.mul_(0.97).add_(self.push.index_select(0, action))
        return -self.state.square().sum(-1)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(OBS, HIDDEN)
        self.head = nn.Linear(HIDDEN, ACTIONS)


class Agent:
    def __init__(self, device):
        self.policy = Policy().to(device).eval()
        self.obs = torch.zeros(ENVS, OBS, device=device)
        self.hidden = torch.zeros(ENVS, HIDDEN, device=device)
        self.action = torch.zeros(ENVS, dtype=torch.long, device=device)
        self.graph = None

    def think(self):
        self.hidden.copy_(self.policy.cell(self.obs, self.hidden))
        self.action.copy_(self.policy.head(self.hidden).argmax(-1))

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.think()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.think()
        self.hidden.zero_()

    def act(self, obs):
        self.obs.copy_(obs)
        self.graph.replay()
        return self.action


@torch.no_grad()
def main():
    torch.manual_seed(19)
    device = torch.device("cuda")
    field, agent = Field(device), Agent(device)
    agent.record()
    starts = torch.randn(3, ENVS, OBS).to(device)
    total = torch.zeros((), device=device)
    for episode in range(3):
        field.reset(starts[episode])
        for _ in range(25):
            total.add_(field.apply(agent.act(field.state)).mean())
    print(f"return {total.item() / 3:.5f} hidden {agent.hidden.norm().item():.4f}")


if __name__ == "__main__":
    main()
