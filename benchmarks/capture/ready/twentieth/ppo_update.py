"""PPO minibatch update with GAE over a fixed rollout, the CleanRL recipe with everything on the device."""
import torch
import torch.nn as nn
from torch.distributions import Categorical

import graphsafe


class Agent(nn.Module):
    def __init__(self, obs=6, act=4):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, 1))
        self.actor = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, act))

    def value(self, x):
        return self.critic(x).squeeze(-1)

    def evaluate(self, x, a):
        dist = Categorical(logits=self.actor(x), validate_args=False)
        return dist.log_prob(a), dist.entropy(), self.value(x)


def gae(rewards, values, dones, last, gamma=0.99, lam=0.95):
    adv, running = torch.zeros_like(rewards), torch.zeros_like(last)
    for t in reversed(range(rewards.shape[0])):
        nxt = last if t == rewards.shape[0] - 1 else values[t + 1]
        live = 1.0 - dones[t]
        delta = rewards[t] + gamma * nxt * live - values[t]
        running = delta + gamma * lam * live * running
        adv[t] = running
    return adv


def build(device, T=8, n=4):
    agent = Agent().to(device)
    opt = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5, capturable=True)

    def step(obs, act, old_logp, rew, done, last_obs):
        with torch.no_grad():
            values = agent.value(obs)
            adv = gae(rew, values, done, agent.value(last_obs))
            ret = adv + values
        logp, ent, v = agent.evaluate(obs, act)
        ratio = (logp - old_logp).exp()
        a = (adv - adv.mean()) / (adv.std() + 1e-8)
        pg = torch.max(-a * ratio, -a * ratio.clamp(0.8, 1.2)).mean()
        v_loss = 0.5 * ((v - ret) ** 2).mean()
        loss = pg - 0.01 * ent.mean() + 0.5 * v_loss
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        opt.step()
        kl = ((ratio - 1) - (logp - old_logp)).mean()
        return loss.detach(), kl.detach()

    args = (torch.randn(T, n, 6, device=device), torch.randint(0, 4, (T, n), device=device), -torch.rand(T, n, device=device) - 1,
            torch.randn(T, n, device=device), torch.zeros(T, n, device=device), torch.randn(n, 6, device=device))

    def refresh(args, kwargs, k):
        obs, act, logp, rew, done, last = args
        obs.copy_(torch.randn(T, n, 6))
        act.copy_(torch.randint(0, 4, (T, n)))
        logp.copy_(-torch.rand(T, n) - 1)
        rew.copy_(torch.randn(T, n))
        done.copy_((torch.rand(T, n) < 0.1).float())
        last.copy_(torch.randn(n, 6))

    return graphsafe.Step(step, args, refresh=refresh)
