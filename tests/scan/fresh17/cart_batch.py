"""Batched cart-pole with policy, annealed exploration, short rollouts."""
import torch
from torch import nn


class Rollout:
    def __init__(self, steps, n, device):
        self.obs = torch.zeros(steps, n, 4, device=device)
        self.act = torch.zeros(steps, n, device=device)
        self.over = torch.zeros(steps, n, dtype=torch.bool, device=device)

    def put(self, i, obs, act, over):
        self.obs[i].copy_(obs)
        self.act[i].copy_(act)
        self.over[i].copy_(over)


class CartPolicy:
    def __init__(self, n, device):
        self.state = torch.zeros(n, 4, device=device)
        self.age = torch.zeros(n, device=device)
        self.obs = torch.zeros(n, 4, device=device)
        self.epsilon = torch.full((), 0.5, device=device)
        self.net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1)).to(device).requires_grad_(False)

    def tick(self):
        self.obs.copy_(self.state)
        mean = self.net(self.obs).squeeze(-1)
        push = mean + self.epsilon * torch.randn_like(mean)
        x, v, a, w = self.state.unbind(-1)
        w = w + 0.05 * (9.8 * torch.sin(a) - push * torch.cos(a))
        v = v + 0.05 * push
        nxt = torch.stack((x + 0.05 * v, v, a + 0.05 * w, w), dim=-1)
        self.age.add_(1)
        over = (nxt[:, 2].abs() > 0.8) | (self.age > 60)
        self.state.copy_(torch.where(over.unsqueeze(1), 0.02 * torch.randn_like(nxt), nxt))
        self.age.masked_fill_(over, 0.0)
        return push, over


def record(fn, device):
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            fn()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        result = fn()
    return graph, result


def main(device="cuda", epochs=4, steps=12, n=16):
    torch.manual_seed(2)
    device = torch.device(device)
    cart = CartPolicy(n, device)
    graph, (push, over) = record(cart.tick, device)
    store = Rollout(steps, n, device)
    ends = []
    for epoch in range(epochs):
        torch.manual_seed(100 + epoch)
        for i in range(steps):
            graph.replay()
            store.put(i, cart.obs, push, over)
        cart.epsilon.mul_(0.8).clamp_(min=0.05)
        ends.append(store.over.sum())
    print(torch.stack(ends))


if __name__ == "__main__":
    main()
