"""Soft actor-critic on a toy task; actor and critic are graphed callables, and the critic's head is reset at times."""

import torch
import torch.nn as nn
import torch.nn.functional as F

OBS, ACT, BATCH, RESET = 6, 2, 32, 15


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, 32), nn.SiLU(), nn.Linear(32, ACT))
        self.sharpness = 1.0

    def forward(self, obs):
        return torch.tanh(self.body(obs) * self.sharpness)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS + ACT, 32), nn.SiLU())
        self.head = nn.Linear(32, 1)

    def forward(self, obs, act):
        return self.head(self.body(torch.cat([obs, act], -1))).squeeze(-1)


class Agent:
    def __init__(self):
        obs = torch.randn(BATCH, OBS, device="cuda")
        act = torch.randn(BATCH, ACT, device="cuda", requires_grad=True)
        self.target = Critic().cuda().requires_grad_(False)
        self.actor, self.critic = torch.cuda.make_graphed_callables(
            (Actor().cuda(), Critic().cuda()), ((obs,), (obs, act))
        )
        self.actor_opt = torch.optim.SGD(self.actor.parameters(), lr=1e-3)
        self.critic_opt = torch.optim.SGD(self.critic.parameters(), lr=1e-2)

    def learn_critic(self, obs, act, reward, following):
        with torch.no_grad():
            goal = reward + 0.97 * self.target(following, self.actor(following))
        now = self.critic(obs, act)
        pushed = self.critic(obs, (act + 0.3).requires_grad_())
        loss = F.mse_loss(now, goal) + 0.1 * F.relu(pushed - now).mean()
        self.critic_opt.zero_grad()
        loss.backward()
        self.critic_opt.step()
        return loss.item()

    def learn_actor(self, obs):
        loss = -self.critic(obs, self.actor(obs)).mean()
        self.actor_opt.zero_grad()
        loss.backward()
        self.actor_opt.step()

    def sharpen(self, factor):
        self.actor.sharpness *= factor

    def reset_head(self):
        self.critic.head = nn.Linear(32, 1, device="cuda")

    @torch.no_grad()
    def follow(self, rate=0.01):
        for slow, fast in zip(self.target.parameters(), self.critic.parameters(), strict=True):
            slow.lerp_(fast, rate)


def transitions(count):
    obs = torch.randn(BATCH, OBS, device="cuda")
    for _ in range(count):
        act = torch.randn(BATCH, ACT, device="cuda").requires_grad_()
        following = obs + 0.1 * torch.randn_like(obs)
        yield obs, act, -following.square().mean(-1), following
        obs = following


def main():
    torch.manual_seed(13)
    agent = Agent()
    curve = []
    for number, (obs, act, reward, following) in enumerate(transitions(45)):
        curve.append(agent.learn_critic(obs, act, reward, following))
        agent.learn_actor(obs)
        agent.follow()
        if number % 10 == 9:
            agent.sharpen(1.2)
        if number % RESET == RESET - 1:
            agent.reset_head()
    torch.save(curve, "curve.pt")


if __name__ == "__main__":
    main()
