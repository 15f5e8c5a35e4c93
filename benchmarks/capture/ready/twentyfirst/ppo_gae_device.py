"""GAE over a fixed rollout and one PPO epoch, all on the device."""
import torch
import torch.nn as nn
from torch.distributions import Normal

import graphsafe


class ActorCritic(nn.Module):
    def __init__(self, obs=6, act=2):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, act))
        self.critic = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, 1))
        self.logstd = nn.Parameter(torch.zeros(1, act))

    def value(self, obs):
        return self.critic(obs).squeeze(-1)

    def logprob(self, obs, act):
        mean = self.actor(obs)
        dist = Normal(mean, self.logstd.expand_as(mean).exp(), validate_args=False)
        return dist.log_prob(act).sum(-1), dist.entropy().sum(-1)


def gae(rewards, values, dones, last, gamma=0.99, lam=0.95):
    adv = torch.zeros_like(rewards)
    running = torch.zeros_like(last)
    for t in reversed(range(rewards.shape[0])):
        following = last if t == rewards.shape[0] - 1 else values[t + 1]
        alive = 1.0 - dones[t]
        delta = rewards[t] + gamma * following * alive - values[t]
        running = delta + gamma * lam * alive * running
        adv[t] = running
    return adv, adv + values


def build(device, steps=8, envs=4):
    torch.manual_seed(4)
    agent = ActorCritic().to(device)
    opt = torch.optim.Adam(agent.parameters(), lr=3e-4, capturable=True)
    roll = {
        "obs": torch.randn(steps, envs, 6, device=device),
        "act": torch.randn(steps, envs, 2, device=device),
        "logp": torch.full((steps, envs), -2.5, device=device),
        "rew": torch.randn(steps, envs, device=device),
        "done": torch.zeros(steps, envs, device=device),
        "last": torch.randn(envs, 6, device=device),
    }

    def learn(roll):
        with torch.no_grad():
            values = agent.value(roll["obs"])
            adv, ret = gae(roll["rew"], values, roll["done"], agent.value(roll["last"]))
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        logp, entropy = agent.logprob(roll["obs"], roll["act"])
        ratio = (logp - roll["logp"]).exp()
        policy = -torch.min(adv * ratio, adv * ratio.clamp(0.8, 1.2)).mean()
        value = 0.5 * (agent.value(roll["obs"]) - ret).pow(2).mean()
        loss = policy + 0.5 * value - 0.01 * entropy.mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        opt.step()
        return loss.detach(), policy.detach()

    def refresh(args, kwargs, k):
        for name, buf in args[0].items():
            if name == "done":
                buf.copy_((torch.rand(buf.shape) < 0.1).float())
            elif name != "logp":
                buf.copy_(torch.randn(buf.shape))

    return graphsafe.Step(learn, (roll,), refresh=refresh)
