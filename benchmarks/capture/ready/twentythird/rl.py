import time
from collections import defaultdict, deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from graphsafe import Step


def karras(n, device, lo=0.03, hi=10.0, rho=7.0):
    ramp = torch.linspace(0, 1, n)
    sigmas = (hi ** (1 / rho) + ramp * (lo ** (1 / rho) - hi ** (1 / rho))) ** rho
    return torch.cat((sigmas, torch.zeros(1))).to(device)


class Denoiser(nn.Module):
    def __init__(self, d=10):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d + 1, 32), nn.SiLU(), nn.Linear(32, d))

    def forward(self, x, sigma):
        c_in = 1 / (sigma**2 + 1).sqrt()
        emb = (sigma + 1e-3).log().expand(x.shape[0], 1)
        return x / (sigma**2 + 1) + self.net(torch.cat((x * c_in, emb), 1)) * sigma * c_in


class EulerScheduler:
    """As in diffusers: the scheduler counts its own steps."""

    def __init__(self, sigmas):
        self.sigmas, self.step_index = sigmas, None

    def set_begin(self, index=0):
        self.step_index = index

    def step(self, denoised, sample):
        if self.step_index is None:
            self.step_index = 0
        sigma, following = self.sigmas[self.step_index], self.sigmas[self.step_index + 1]
        slope = (sample - denoised) / sigma
        self.step_index += 1
        return sample + slope * (following - sigma)


def build_euler_index(device, n=30):
    """Faulty: the scheduler's index is a Python int that a replay does not advance, so every replay does the same noise level."""
    model = Denoiser().to(device).requires_grad_(False)
    scheduler = EulerScheduler(karras(n, device))
    x = torch.randn(4, 10, device=device) * 10

    def step(x):
        sigma = scheduler.sigmas[scheduler.step_index or 0]
        x.copy_(scheduler.step(model(x, sigma), x))
        return x.clone()

    def refresh(args, kwargs, k):
        if scheduler.step_index is not None and scheduler.step_index >= n:
            scheduler.set_begin(0)
            args[0].copy_(torch.randn(4, 10) * 10)

    return Step(step, (x,), refresh=refresh, reset=scheduler.set_begin)


class DeviceSampler:
    def __init__(self, device, n=20):
        self.model = Denoiser().to(device).requires_grad_(False)
        self.sigmas = karras(n, device)
        self.n = n
        self.index = torch.zeros(1, dtype=torch.long, device=device)
        self.latent = torch.randn(4, 10, device=device) * 10
        self.log = []
        self.out = None

    def step(self):
        sigma = self.sigmas.index_select(0, self.index)
        following = self.sigmas.index_select(0, self.index + 1)
        slope = (self.latent - self.model(self.latent, sigma)) / sigma
        down = torch.sqrt((following**2 * (1 - following**2 / sigma**2)).clamp_min(0))
        up = torch.sqrt((following**2 - down**2).clamp_min(0))
        self.latent.add_(slope * (down - sigma)).add_(torch.randn_like(self.latent) * up)
        self.index.add_(1).remainder_(self.n)
        self.out = self.latent.clone()
        return self.out

    def between(self, args, kwargs, k):
        if k % self.n == 0:
            self.index.zero_()
            self.latent.copy_(torch.randn(4, 10) * 10)
        if k % 5 == 0 and self.out is not None:
            self.log.append((k, round(self.out.std().item(), 4)))


def build_euler_device(device):
    """Sound: the index is a device tensor and noise comes from the default generator; the loop only logs the last latent."""
    sampler = DeviceSampler(device)
    return Step(sampler.step, refresh=sampler.between)


class TokenSampler:
    def __init__(self, device, vocab=40, seed=1234):
        self.vocab = vocab
        self.gen = torch.Generator(device=device)
        self.gen.manual_seed(seed)
        self.temperature = torch.full((3, 1), 0.8, device=device)
        self.top_p = torch.full((3, 1), 0.9, device=device)

    def filtered(self, logits, k=20):
        values, index = (logits / self.temperature).topk(k, dim=-1)
        probs = values.softmax(-1)
        outside = probs.cumsum(-1) - probs > self.top_p
        return probs.masked_fill(outside, 0.0), index

    def sample(self, logits, generator=None):
        probs, index = self.filtered(logits)
        noise = torch.empty_like(probs).exponential_(1.0, generator=generator)
        choice = (probs / noise.clamp_min(1e-10)).argmax(-1, keepdim=True)
        return index.gather(-1, choice), probs


def build_private_generator(device):
    """Faulty: the noise comes from the request's own generator, which nobody registers with the graph."""
    sampler = TokenSampler(device)
    head = nn.Linear(16, sampler.vocab).to(device).requires_grad_(False)

    def step(hidden):
        return sampler.sample(head(hidden), generator=sampler.gen)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(3, 16))

    return Step(step, (torch.randn(3, 16, device=device),), refresh=refresh)


def build_topk_sampler(device):
    """Sound: top-k, top-p and exponential noise from the default generator; temperatures are refreshed in place."""
    sampler = TokenSampler(device)
    head = nn.Linear(16, sampler.vocab).to(device).requires_grad_(False)
    counts = torch.zeros(3, sampler.vocab, device=device)

    def step(hidden, presence):
        logits = head(hidden) - presence * (counts > 0)
        token, probs = sampler.sample(logits)
        counts.scatter_add_(1, token, torch.ones_like(token, dtype=counts.dtype))
        return token, probs

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(3, 16))
        args[1].copy_(torch.rand(3, 1))
        sampler.temperature.copy_(0.5 + torch.rand(3, 1))
        if k % 30 == 0:
            counts[k // 30 % 3].zero_()

    return Step(step, (torch.randn(3, 16, device=device), torch.zeros(3, 1, device=device)), refresh=refresh, reset=counts.zero_)


class ReplayBuffer:
    def __init__(self, device, capacity=512, obs=6):
        self.capacity, self.size, self.ptr = capacity, 0, 0
        self.obs = torch.zeros(capacity, obs, device=device)
        self.act = torch.zeros(capacity, dtype=torch.long, device=device)
        self.rew = torch.zeros(capacity, device=device)
        self.next_obs = torch.zeros(capacity, obs, device=device)
        self.count = torch.zeros(1, device=device)
        self.device = device

    def add(self, n):
        rows = (torch.arange(n) + self.ptr) % self.capacity
        rows = rows.to(self.device)
        self.obs[rows] = torch.randn(n, 6).to(self.device)
        self.next_obs[rows] = torch.randn(n, 6).to(self.device)
        self.act[rows] = torch.randint(0, 3, (n,)).to(self.device)
        self.rew[rows] = torch.randn(n).to(self.device)
        self.ptr = (self.ptr + n) % self.capacity
        self.size = min(self.size + n, self.capacity)
        self.count.fill_(self.size)

    def gather(self, rows):
        return self.obs[rows], self.act[rows], self.rew[rows], self.next_obs[rows]


class Dqn:
    def __init__(self, device, buffer):
        self.q = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3)).to(device)
        self.target = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3)).to(device).requires_grad_(False)
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), lr=1e-3, capturable=True)
        self.buffer = buffer

    def learn(self, rows):
        obs, act, rew, nxt = self.buffer.gather(rows)
        with torch.no_grad():
            best = self.q(nxt).argmax(1, keepdim=True)
            goal = rew + 0.99 * self.target(nxt).gather(1, best).squeeze(1)
        self.opt.zero_grad(set_to_none=False)
        td = self.q(obs).gather(1, act[:, None]).squeeze(1) - goal
        loss = F.smooth_l1_loss(td, torch.zeros_like(td))
        loss.backward()
        self.opt.step()
        return loss.detach(), td.detach()

    @torch.no_grad()
    def polyak(self, tau=0.01):
        torch._foreach_lerp_(list(self.target.parameters()), list(self.q.parameters()), tau)


def build_replay_size(device):
    """Faulty: the upper bound of the sampled rows is the buffer's Python size at capture, while the loop keeps adding rows."""
    buffer = ReplayBuffer(device)
    buffer.add(64)
    agent = Dqn(device, buffer)

    def update():
        rows = torch.randint(0, buffer.size, (16,), device=device)
        out = agent.learn(rows)
        agent.polyak()
        return out

    return Step(update, refresh=lambda args, kwargs, k: buffer.add(4))


def build_replay_device(device):
    """Sound: rows are drawn as a random fraction of a size that lives on the device and is filled by the loop."""
    buffer = ReplayBuffer(device, capacity=128)
    buffer.add(64)
    agent = Dqn(device, buffer)
    meter = {"t": time.perf_counter(), "fps": 0.0}

    def update():
        rows = (torch.rand(16, device=device) * buffer.count).long().clamp_(max=buffer.capacity - 1)
        out = agent.learn(rows)
        agent.polyak()
        return out

    def collect(args, kwargs, k):
        buffer.add(4)
        now = time.perf_counter()
        meter["fps"], meter["t"] = 4 / max(now - meter["t"], 1e-9), now

    return Step(update, refresh=collect)


class Rollout:
    def __init__(self, device, envs=5, horizon=8):
        self.actor = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 6)).to(device).requires_grad_(False)
        self.obs = torch.randn(envs, 6, device=device)
        self.baseline = torch.zeros(envs, 6, device=device)
        self.kept = deque(maxlen=horizon)
        self.action = None

    def act(self):
        self.action = torch.tanh(self.actor(self.obs - self.baseline))
        return self.action

    def observe(self, args, kwargs, k):
        if self.action is not None:
            self.kept.append(self.action)
        if len(self.kept) == self.kept.maxlen:
            self.baseline.copy_(torch.stack(tuple(self.kept)).mean(0))
        self.obs.copy_(torch.randn(self.obs.shape))


def build_kept_outputs(device):
    """Faulty: the loop keeps the actions of several steps without copies, but a graph writes them all into one tensor."""
    rollout = Rollout(device)
    return Step(rollout.act, refresh=rollout.observe)


class CartPole:
    def __init__(self, device, envs=16, limit=200):
        self.device, self.envs, self.limit = device, envs, limit
        self.state = torch.zeros(envs, 4, device=device)
        self.length = torch.zeros(envs, device=device)
        self.t = 0

    def physics(self, force):
        x, v, th, w = self.state.unbind(1)
        sin, cos = th.sin(), th.cos()
        tmp = (force + 0.05 * w**2 * sin) / 1.1
        alpha = (9.8 * sin - cos * tmp) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        acc = tmp - 0.05 * alpha * cos / 1.1
        return torch.stack((x + 0.02 * v, v + 0.02 * acc, th + 0.02 * w, w + 0.02 * alpha), 1)

    def fresh(self):
        return torch.rand(self.envs, 4, device=self.device) * 0.1 - 0.05

    def step(self, action):
        nxt = self.physics(action.to(self.state.dtype) * 20 - 10)
        self.length.add_(1)
        done = (nxt[:, 0].abs() > 2.4) | (nxt[:, 2].abs() > 0.21) | (self.length >= self.limit)
        self.state.copy_(torch.where(done[:, None], self.fresh(), nxt))
        self.length.mul_(~done)
        return nxt, done

    def step_all(self, action):
        self.t += 1
        nxt = self.physics(action.to(self.state.dtype) * 20 - 10)
        if self.t >= self.limit:
            self.state.copy_(self.fresh())
            self.t = 0
        else:
            self.state.copy_(nxt.clamp(-2.4, 2.4))
        return self.state.clone()


def build_cartpole(device):
    """Sound: finished environments are reset by a selection on the device with the default generator."""
    env = CartPole(device)
    env.state.copy_(env.fresh())
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)).to(device).requires_grad_(False)

    def rollout_step():
        logits = policy(env.state)
        gumbel = -torch.empty_like(logits).exponential_().log()
        action = (logits + gumbel).argmax(1)
        nxt, done = env.step(action)
        return action, nxt, done, logits

    def log(args, kwargs, k):
        if k % 20 == 0:
            print(f"step {k}: mean length {env.length.mean().item():.1f}") if k < 0 else None

    return Step(rollout_step, refresh=log)


def build_env_limit(device):
    """Faulty: all environments are reset after 200 steps by a Python counter, which a replay never counts."""
    env = CartPole(device)
    env.state.copy_(env.fresh())
    policy = nn.Linear(4, 2).to(device).requires_grad_(False)

    def rollout_step(obs_noise):
        action = policy(env.state + 0.01 * obs_noise).argmax(1)
        return env.step_all(action)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 4))

    return Step(rollout_step, (torch.zeros(16, 4, device=device),), refresh=refresh)


class Rssm(nn.Module):
    def __init__(self, act=3, obs=8, deter=16, stoch=6):
        super().__init__()
        self.cell = nn.GRUCell(stoch + act, deter)
        self.prior, self.post = nn.Linear(deter, 2 * stoch), nn.Linear(deter + obs, 2 * stoch)
        self.reward = nn.Linear(deter + stoch, 1)

    def observe(self, deter, stoch, act, obs):
        deter = self.cell(torch.cat((stoch, act), -1), deter)
        mean, std = self.post(torch.cat((deter, obs), -1)).chunk(2, -1)
        stoch = mean + (F.softplus(std) + 0.1) * torch.randn_like(mean)
        return deter, stoch, self.reward(torch.cat((deter, stoch), -1)).squeeze(-1)


class Agent:
    def __init__(self, device, envs=4):
        self.rssm = Rssm().to(device).requires_grad_(False)
        self.state = {"deter": torch.zeros(envs, 16, device=device), "stoch": torch.zeros(envs, 6, device=device)}

    def step_rebind(self, act, obs, first):
        keep = (~first).float()[:, None]
        deter, stoch, reward = self.rssm.observe(self.state["deter"] * keep, self.state["stoch"] * keep, act * keep, obs)
        self.state = {"deter": deter, "stoch": stoch}
        return reward, deter

    def step_inplace(self, act, obs, first):
        keep = (~first).float()[:, None]
        deter, stoch, reward = self.rssm.observe(self.state["deter"] * keep, self.state["stoch"] * keep, act * keep, obs)
        self.state["deter"].copy_(deter)
        self.state["stoch"].copy_(stoch)
        return reward, deter


def world_inputs(device, envs=4):
    def refresh(args, kwargs, k):
        args[0].copy_(F.one_hot(torch.randint(0, 3, (envs,)), 3).float())
        args[1].copy_(torch.randn(envs, 8))
        args[2].copy_(torch.rand(envs) < 0.1)

    args = torch.zeros(envs, 3, device=device), torch.randn(envs, 8, device=device), torch.zeros(envs, dtype=torch.bool, device=device)
    return args, refresh


def build_rssm_rebind(device):
    """Faulty: the agent's latent state is a new dict of new tensors each step, and a replay starts from the one at capture."""
    agent = Agent(device)
    args, refresh = world_inputs(device)
    return Step(agent.step_rebind, args, refresh=refresh)


def build_rssm_inplace(device):
    """Sound: the latent state is copied into the tensors from which the next step reads it."""
    agent = Agent(device)
    args, refresh = world_inputs(device)
    return Step(agent.step_inplace, args, refresh=refresh)


class HostNorm:
    """Welford with the count on the host, as in many PPO scripts."""

    def __init__(self, device, d):
        self.mean, self.m2 = torch.zeros(d, device=device), torch.ones(d, device=device)
        self.count = 1

    def __call__(self, x):
        for row in x.unbind(0):
            self.count += 1
            delta = row - self.mean
            self.mean.add_(delta / self.count)
            self.m2.add_(delta * (row - self.mean))
        return ((x - self.mean) / (self.m2 / self.count + 1e-6).sqrt()).clamp(-5, 5)


class DeviceNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("var", torch.ones(d))
        self.register_buffer("count", torch.tensor(1e-4))

    def forward(self, x):
        var, mean = torch.var_mean(x, 0, unbiased=False)
        total = self.count + x.shape[0]
        delta = mean - self.mean
        m2 = self.var * self.count + var * x.shape[0] + delta**2 * self.count * x.shape[0] / total
        self.mean.add_(delta * x.shape[0] / total)
        self.var.copy_(m2 / total)
        self.count.copy_(total)
        return ((x - self.mean) / (self.var + 1e-6).sqrt()).clamp(-5, 5)


def build_reward_norm(device):
    """Faulty: the number of observations is a Python int, so each replay divides by the count of the capture."""
    norm = HostNorm(device, 6)
    value = nn.Linear(6, 1).to(device).requires_grad_(False)

    def step(obs):
        return value(norm(obs)).squeeze(-1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.from_numpy(np.random.normal(2.0, 3.0, (4, 6)).astype(np.float32)))

    return Step(step, (torch.randn(4, 6, device=device),), refresh=refresh)


def build_running_stats(device):
    """Sound: mean, variance and count are buffers updated in place; the loop only averages the reported values."""
    norm = DeviceNorm(6).to(device)
    value = nn.Linear(6, 1).to(device).requires_grad_(False)
    meters, last = defaultdict(list), {}

    def step(obs):
        last["value"] = value(norm(obs)).squeeze(-1)
        return last["value"]

    def refresh(args, kwargs, k):
        if "value" in last:
            meters["value"].append(last["value"].mean().item())
            del meters["value"][:-100]
        args[0].copy_(torch.from_numpy(np.random.normal(2.0, 3.0, (4, 6)).astype(np.float32)))

    return Step(step, (torch.randn(4, 6, device=device),), refresh=refresh)
