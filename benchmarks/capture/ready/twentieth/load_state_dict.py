"""Policy whose weights are reloaded in place by load_state_dict every few steps."""
import torch
import torch.nn as nn

import graphsafe


class Policy(nn.Module):
    def __init__(self, obs=6, act=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.norm = nn.BatchNorm1d(32)
        self.pi, self.v = nn.Linear(32, act), nn.Linear(32, 1)

    def forward(self, obs):
        h = self.norm(self.body(obs))
        return self.pi(h).log_softmax(-1), self.v(h).squeeze(-1)


class Actor:
    def __init__(self, device):
        self.policy = Policy().to(device).eval()
        self.version = 0

    @torch.no_grad()
    def act(self, obs):
        logp, v = self.policy(obs)
        gumbel = -torch.empty_like(logp).exponential_().log()
        action = (logp + gumbel).argmax(-1)
        return action, logp, v

    def pull(self):
        state = {k: v.cpu() + (0.05 * torch.randn(v.shape) if v.is_floating_point() else 0) for k, v in self.policy.state_dict().items()}
        state["norm.running_var"].abs_().add_(0.1)
        self.policy.load_state_dict(state)
        self.version += 1


def build(device, n=8):
    actor = Actor(device)
    obs = torch.randn(n, 6, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(n, 6))
        if k % 4 == 3:
            actor.pull()

    return graphsafe.Step(actor.act, (obs,), refresh=refresh)
