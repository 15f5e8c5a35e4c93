import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import graphsafe


class PointWorld:
    def __init__(self, n):
        self.n = n
        self.pos = np.zeros((n, 4), dtype=np.float32)

    def restart(self):
        self.pos = np.linspace(-1, 1, self.n * 4, dtype=np.float32).reshape(self.n, 4)

    def advance(self, actions):
        kick = np.eye(4, dtype=np.float32)[actions] * 0.2
        self.pos = np.clip(self.pos + kick - 0.05, -2, 2)
        return self.pos.copy(), -np.abs(self.pos).sum(1)


class ActorCritic(nn.Module):
    def __init__(self, obs, hidden, actions):
        super().__init__()
        self.torso = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, actions)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.torso(obs)
        return self.pi(h), self.v(h).squeeze(-1)


def build_world_rollout(device):
    torch.manual_seed(41)
    net = ActorCritic(4, 32, 4).to(device).requires_grad_(False)
    world = PointWorld(6)

    def step(obs, gamma=0.9):
        world.restart()
        values, logps, rewards = [], [], []
        for _ in range(3):
            logits, value = net(obs)
            logp = logits.log_softmax(-1)
            action = (logp + 0.1 * torch.randn_like(logp)).argmax(-1)
            logps.append(logp.gather(1, action[:, None]).squeeze(1))
            values.append(value)
            seen, reward = world.advance(action.cpu().numpy())
            obs = torch.from_numpy(seen).to(device)
            rewards.append(torch.from_numpy(reward).to(device))
        ret = net(obs)[1]
        advantages = []
        for r, v in zip(reversed(rewards), reversed(values)):
            ret = r + gamma * ret
            advantages.append(ret - v)
        adv = torch.stack(advantages[::-1])
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        return adv, torch.stack(logps), ret

    return step, (torch.randn(6, 4, device=device),)


class ReplayAgent:
    def __init__(self, device):
        self.device = device
        self.net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3)).to(device).requires_grad_(False)
        self.goal = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3)).to(device).requires_grad_(False)
        self.seen = torch.zeros(16, 6, device=device)
        self.earned = torch.zeros(16, device=device)
        self.did = torch.zeros(16, dtype=torch.long, device=device)
        self.at = 0

    def clear(self):
        self.seen.zero_()
        self.earned.zero_()
        self.did.zero_()
        self.at = 0

    def __choose(self, obs):
        q = self.net(obs)
        if random.random() < 0.3:
            q = torch.rand_like(q)
        return q.argmax()

    def __store(self, obs, action, reward):
        self.seen[self.at] = obs
        self.did[self.at] = action
        self.earned[self.at] = reward
        self.at = (self.at + 1) % 16

    def __call__(self, obs):
        action = self.__choose(obs)
        angle = obs * 0.5 + torch.sin(action * 1.3)
        reward = 1.0 - angle.pow(2).mean()
        self.__store(obs, action, reward)
        rows = torch.randint(0, 16, (8,), device=self.device)
        states, did, earned = self.seen[rows], self.did[rows], self.earned[rows]
        q = self.net(states).gather(1, did[:, None]).squeeze(1)
        best = self.goal(torch.tanh(states)).amax(-1)
        target = earned + 0.95 * best
        td = F.smooth_l1_loss(q, target, reduction="none")
        priority = (td + 1e-3).pow(0.6)
        return action, td.mean(), priority / priority.sum()


def build_replay_agent(device):
    torch.manual_seed(42)
    agent = ReplayAgent(device)
    return graphsafe.Step(agent, (torch.randn(6, device=device),), {}, reset=agent.clear)


def build_ppo_kl_stop(device):
    torch.manual_seed(43)
    w = (torch.randn(6, 4, device=device) * 0.3).requires_grad_()
    start = w.detach().clone()

    def surrogate(obs, actions, old_logp, adv):
        logp = (obs @ w).log_softmax(-1).gather(1, actions[:, None]).squeeze(1)
        ratio = (logp - old_logp).exp()
        loss = -torch.minimum(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        kl = (old_logp - logp).mean().detach()
        return loss, kl

    def step(obs, actions, adv):
        with torch.no_grad():
            w.copy_(start)
            old_logp = (obs @ w).log_softmax(-1).gather(1, actions[:, None]).squeeze(1)
        epochs = 0
        for _ in range(2):
            loss, kl = surrogate(obs, actions, old_logp, adv)
            if kl > 0.01:
                break
            grad, = torch.autograd.grad(loss, w)
            with torch.no_grad():
                w.sub_(grad, alpha=0.8)
            epochs += 1
        return loss.detach(), epochs

    obs = torch.randn(24, 6, device=device)
    actions = torch.randint(0, 4, (24,), device=device)
    adv = torch.randn(24, device=device)
    return step, (obs, actions, adv)


class ReturnEstimator:
    def __init__(self, device):
        self.value = nn.Sequential(nn.Linear(5, 24), nn.ELU(), nn.Linear(24, 1)).to(device).requires_grad_(False)
        self.terminal = None

    @property
    def reaches_end(self):
        return bool(self.terminal.any())

    def bootstrap(self, last):
        return self.value(last).squeeze(-1)

    def __call__(self, obs, rewards, terminal, *, gamma=0.97, lam=0.9):
        self.terminal = terminal
        values = self.value(obs).squeeze(-1)
        tail = self.bootstrap(torch.roll(obs[-1], 1, 0))
        alive = 1.0 - terminal.to(rewards.dtype)
        if self.reaches_end:
            tail = tail * alive[-1]
            rewards = rewards - 0.5 * terminal
        nxt = torch.cat([values[1:], tail[None]])
        delta = rewards + gamma * nxt * alive - values
        running = torch.zeros_like(tail)
        out = []
        for t in reversed(range(rewards.shape[0])):
            running = delta[t] + gamma * lam * alive[t] * running
            out.append(running)
        adv = torch.stack(out[::-1])
        spread = adv.std().clamp_min(1e-5)
        return (adv - adv.mean()) / spread, adv + values


def build_gae_terminal(device):
    torch.manual_seed(44)
    est = ReturnEstimator(device)
    obs = torch.randn(5, 4, 5, device=device)
    rewards = torch.randn(5, 4, device=device)
    terminal = torch.rand(5, 4, device=device) < 0.1

    def refresh(args, kwargs, k):
        seen, gained, ended = args
        seen.normal_()
        gained.normal_()
        ended.copy_(torch.rand(ended.shape, device=device) < (0.0 if k % 3 == 0 else 0.15))

    return graphsafe.Step(est, (obs, rewards, terminal), {"gamma": 0.97, "lam": 0.9}, refresh=refresh)


class TwinLearner:
    def __init__(self, device):
        torch.manual_seed(45)
        self.online = [
            (torch.randn(8, 16, device=device) * 0.3).requires_grad_(),
            (torch.randn(16, 3, device=device) * 0.3).requires_grad_(),
        ]
        self.first = [p.detach().clone() for p in self.online]
        self.frozen = [p.detach().clone() for p in self.online]
        self.velocity = [torch.zeros_like(p) for p in self.frozen]
        self.updates = 0

    def reset(self):
        self.updates = 0
        with torch.no_grad():
            for group in (self.online, self.frozen):
                for p, q in zip(group, self.first):
                    p.copy_(q)
            for v in self.velocity:
                v.zero_()

    def q(self, params, obs):
        return torch.relu(obs @ params[0]) @ params[1]

    def __call__(self, obs, actions, rewards, nxt):
        with torch.no_grad():
            goal = rewards + 0.9 * self.q(self.frozen, nxt).amax(-1)
        picked = self.q(self.online, obs).gather(1, actions[:, None]).squeeze(1)
        loss = F.mse_loss(picked, goal)
        grads = torch.autograd.grad(loss, self.online)
        with torch.no_grad():
            for p, v, g in zip(self.online, self.velocity, grads):
                v.mul_(0.9).add_(g)
                p.sub_(v, alpha=0.02)
        self.updates += 1
        if self.updates % 4:
            return None
        with torch.no_grad():
            for p, f in zip(self.online, self.frozen):
                f.copy_(p)
        return loss.detach()


def build_twin_sync(device):
    learner = TwinLearner(device)
    torch.manual_seed(46)
    obs = torch.randn(12, 8, device=device)
    actions = torch.randint(0, 3, (12,), device=device)
    rewards = torch.randn(12, device=device)
    nxt = torch.randn(12, 8, device=device)
    return graphsafe.Step(learner, (obs, actions, rewards, nxt), {}, reset=learner.reset)
