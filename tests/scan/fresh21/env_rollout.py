import torch
from torch import nn


class CartField:
    def __init__(self, device, n=16):
        self.state = torch.zeros(n, 4, device=device)
        self.action = torch.zeros(n, device=device)

    def advance(self):
        self.state.mul_(0.98)
        self.state[:, 0].add_(self.action)
        return self.state.norm(dim=1)


class Rollout:
    def __init__(self, device):
        self.env = CartField(device)
        self.policy = nn.Linear(4, 1).to(device).requires_grad_(False)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._tick()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.reward = self._tick()

    def _tick(self):
        self.env.action.copy_(self.policy(self.env.state).squeeze(-1) + 0.1)
        return self.env.advance()

    def reset(self, start):
        self.env.state = start.clone()

    def sync(self, learner):
        self.policy.weight = nn.Parameter(learner.weight.detach().clone(), requires_grad=False)

    def collect(self, horizon):
        rewards = []
        for _ in range(horizon):
            self.graph.replay()
            rewards.append(self.reward)
            if rewards[-1].max().item() > 100.0:
                break
        return torch.stack(rewards)


def main(device="cuda"):
    learner = nn.Linear(4, 1).to(device)
    r = Rollout(device)
    for _ in range(3):
        r.reset(torch.randn(16, 4, device=device))
        r.sync(learner)
        print(r.collect(3).mean())


if __name__ == "__main__":
    main()
