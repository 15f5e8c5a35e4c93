import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, obs=6, act=3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, act + 1))

    def forward(self, obs):
        y = self.net(obs)
        return y[:, :-1], y[:, -1]


class VecPoint:
    def __init__(self, n, device):
        self.s = torch.zeros(n, 6, device=device)

    def reset(self):
        self.s.normal_()
        return self.s

    def step(self, logits):
        self.s.mul_(0.97).add_(0.01 * logits.sum(1, keepdim=True))
        return self.s, -self.s.square().sum(1)


class Actor:
    def __init__(self, policy, n, device):
        self.policy = policy
        self.obs = torch.zeros(n, 6, device=device)
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm), torch.no_grad():
            policy(self.obs)
        torch.cuda.current_stream().wait_stream(warm)
        self.g = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.g):
            self.logits, self.value = policy(self.obs)

    def act(self, obs):
        self.obs.copy_(obs)
        self.g.replay()
        return self.logits, self.value


def collect(actor, env, horizon):
    obs = env.reset()
    values, rewards, total = [], [], 0.0
    for _ in range(horizon):
        logits, value = actor.act(obs)
        values.append(value)
        obs, reward = env.step(logits)
        rewards.append(reward)
        total += reward.mean().item()
    return torch.stack(values), torch.stack(rewards), total


def update(policy, batch):
    fresh = Policy().to(batch.device)
    with torch.no_grad():
        for p, q in zip(fresh.parameters(), policy.parameters()):
            p.copy_(q - 1e-3 * torch.randn_like(q))
    return fresh


def main(device="cuda"):
    torch.manual_seed(1)
    policy = Policy().to(device)
    env = VecPoint(16, device)
    actor = Actor(policy, 16, device)
    for it in range(4):
        values, rewards, total = collect(actor, env, 8)
        advantage = rewards - values
        policy = update(policy, advantage)
        actor.policy = policy
        print(it, round(total, 3))


if __name__ == "__main__":
    main()
