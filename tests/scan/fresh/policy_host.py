"""A policy server whose weights are exchanged while it serves."""
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, obs=8, act=2):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(obs, 32) / 3, requires_grad=False)
        self.w2 = nn.Parameter(torch.randn(32, act) / 6, requires_grad=False)

    def forward(self, obs):
        return torch.tanh(torch.relu(obs @ self.w1) @ self.w2)


class Inbox:
    def __init__(self):
        self.pending = None

    def post(self, state):
        self.pending = state

    def take(self):
        state, self.pending = self.pending, None
        return state


class Host:
    def __init__(self, device, rows=16):
        self.policy = Policy().to(device)
        self.obs = torch.zeros(rows, 8, device=device)
        self.inbox = Inbox()
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.policy(self.obs)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.act = self.policy(self.obs)

    def sync_weights(self):
        state = self.inbox.take()
        if state is not None:
            for name, value in state.items():
                setattr(self.policy, name, nn.Parameter(value.to(self.obs.device), requires_grad=False))

    def decide(self, obs):
        self.sync_weights()
        self.obs.copy_(obs)
        self.graph.replay()
        print(f"mean action {self.act.mean():.3f}")
        return self.act.clone()


def main():
    device = torch.device("cuda:0")
    host = Host(device)
    for k in range(4):
        host.inbox.post({"w2": torch.randn(32, 2)})
        host.decide(torch.randn(16, 8, device=device))


if __name__ == "__main__":
    main()
