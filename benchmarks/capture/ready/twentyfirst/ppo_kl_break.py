"""PPO update of CleanRL: epochs stop early when the approximate KL passes its target."""
import torch
import torch.nn as nn
from torch.distributions import Categorical

import graphsafe


class Agent(nn.Module):
    def __init__(self, obs=8, actions=4):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, 1))
        self.actor = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, actions))

    def evaluate(self, obs, action):
        dist = Categorical(logits=self.actor(obs), validate_args=False)
        return dist.log_prob(action), dist.entropy(), self.critic(obs).squeeze(-1)


def build(device, n=32, epochs=4, clip=0.2, target_kl=0.02):
    torch.manual_seed(11)
    agent = Agent().to(device)
    opt = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5, capturable=True)
    obs = torch.randn(n, 8, device=device)
    act = torch.randint(4, (n,), device=device)
    old = torch.full((n,), -1.386, device=device)
    adv = torch.randn(n, device=device)
    ret = torch.randn(n, device=device)

    def update(obs, act, old, adv, ret):
        for _ in range(epochs):
            logp, entropy, value = agent.evaluate(obs, act)
            logratio = logp - old
            ratio = logratio.exp()
            with torch.no_grad():
                approx_kl = ((ratio - 1) - logratio).mean()
            a = (adv - adv.mean()) / (adv.std() + 1e-8)
            pg = torch.max(-a * ratio, -a * ratio.clamp(1 - clip, 1 + clip)).mean()
            v = 0.5 * (value - ret).pow(2).mean()
            loss = pg - 0.01 * entropy.mean() + 0.5 * v
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            opt.step()
            if approx_kl > target_kl:
                break
        return loss.detach(), approx_kl

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(n, 8))
        args[1].copy_(torch.randint(4, (n,)))
        args[3].copy_(torch.randn(n))
        args[4].copy_(torch.randn(n))

    return graphsafe.Step(update, (obs, act, old, adv, ret), refresh=refresh)
