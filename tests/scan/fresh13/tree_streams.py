"""Planning with a learned model: a few simulated moves, with the value head on a stream of its own."""

import torch
import torch.nn as nn


class Dynamics(nn.Module):
    def __init__(self, width=32, moves=5):
        super().__init__()
        self.moves = moves
        self.next = nn.Linear(width + moves, width)
        self.reward = nn.Linear(width, 1)
        self.prior = nn.Linear(width, moves)
        self.value = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, state, move):
        hot = nn.functional.one_hot(move, self.moves).to(state.dtype)
        state = torch.tanh(self.next(torch.cat([state, hot], -1)))
        return state, self.reward(state).squeeze(-1)


class Planner:
    def __init__(self, net, depth=4, discount=0.97):
        self.net = net
        self.depth = depth
        self.discount = discount
        self.side = None
        self.best = torch.full((), -1e9, device=next(net.parameters()).device)

    def value(self, state):
        if self.side is None:
            return self.net.value(state).squeeze(-1)
        self.side.wait_stream(torch.cuda.current_stream(state.device))
        with torch.cuda.stream(self.side):
            value = self.net.value(state).squeeze(-1)
        return value

    def plan(self, state):
        total, weight = torch.zeros_like(state[:, 0]), 1.0
        first = None
        for _ in range(self.depth):
            move = self.net.prior(state).argmax(-1)
            first = move if first is None else first
            state, reward = self.net(state, move)
            total = total + weight * reward
            weight *= self.discount
        tail = self.value(state)
        self.best = torch.maximum(self.best, total.amax())
        if total.mean().item() < -10:
            first = torch.zeros_like(first)
        return first, total, tail, self.best.clone()


def build(device):
    torch.manual_seed(47)
    net = Dynamics().to(device).requires_grad_(False)
    planner = Planner(net)
    planner.side = torch.cuda.Stream(device)
    return planner.plan, (torch.randn(16, 32, device=device),)
