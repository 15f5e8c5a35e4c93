"""Diffusion, audio streams, reinforcement learning, simulators, retrieval, encoders."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe

# --- diffusion


class Denoiser(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.a = nn.Linear(dim + 1, 32)
        self.b = nn.Linear(32, dim)

    def features(self, x, sigma):
        return F.silu(self.a(torch.cat([x, sigma.expand(len(x), 1)], -1)))

    def forward(self, x, sigma):
        return self.b(self.features(x, sigma))


class Pipeline:
    def __init__(self, device, steps=40):
        self.model = Denoiser().to(device).requires_grad_(False)
        self.steps = steps
        self.sigmas = torch.cat([torch.linspace(10, 0.1, steps), torch.zeros(1)])
        self.sigma = torch.zeros(1, 1, device=device)
        self.next_sigma = torch.zeros(1, 1, device=device)
        self.guidance = torch.full((1, 1), 4.0, device=device)
        self.x = torch.randn(3, 16, device=device)
        self.cond = torch.zeros(3, 16, device=device)
        self.i = 0

    def prepare(self, k):
        self.i = k % self.steps
        if self.i == 0:  # the next image
            self.x.copy_(torch.randn(3, 16) * 10)
            self.cond.copy_(torch.randn(3, 16))
        self.sigma.fill_(self.sigmas[self.i].item())
        self.next_sigma.fill_(self.sigmas[self.i + 1].item())

    def advance(self, d):
        self.x.add_(d * (self.next_sigma - self.sigma))
        return self.x.clone()

    def guided(self):
        scaled = self.x / (self.sigma**2 + 1).sqrt()
        plain = self.model(scaled, self.sigma)
        cond = self.model(scaled + self.cond, self.sigma)
        return self.advance(plain + self.guidance * (cond - plain))

    def interval(self):
        scaled = self.x / (self.sigma**2 + 1).sqrt()
        cond = self.model(scaled + self.cond, self.sigma)
        if self.i < 30:
            plain = self.model(scaled, self.sigma)
            cond = plain + 4.0 * (cond - plain)
        return self.advance(cond)

    def heun(self):
        d = self.model(self.x + self.cond, self.sigma)
        if self.i < self.steps - 1:
            ahead = self.x + d * (self.next_sigma - self.sigma)
            d = (d + self.model(ahead + self.cond, self.next_sigma)) / 2
        return self.advance(d)


def build_guidance_buffers(device):
    p = Pipeline(device)

    def refresh(args, kwargs, k):
        p.prepare(k)
        p.guidance.fill_(4.0 if p.i < 30 else 1.0)

    refresh((), {}, 0)
    return graphsafe.Step(p.guided, (), refresh=refresh)


def build_guidance_interval(device):
    p = Pipeline(device)
    p.prepare(0)
    return graphsafe.Step(p.interval, (), refresh=lambda args, kwargs, k: p.prepare(k))


def build_heun_last(device):
    p = Pipeline(device)
    p.prepare(0)
    return graphsafe.Step(p.heun, (), refresh=lambda args, kwargs, k: p.prepare(k))


# --- audio


class Stream(nn.Module):
    """A causal convolution and a GRU over chunks of a stream."""

    def __init__(self, channels=6, kernel=5, chunk=12):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, kernel)
        self.cell = nn.GRUCell(channels, channels)
        self.chunk = chunk
        self.seen = 0
        self.register_buffer("tail", torch.zeros(1, channels, kernel - 1))
        self.register_buffer("h", torch.zeros(1, channels))
        self.register_buffer("gain", torch.ones(1, 1, chunk))

    def run(self, x):
        joined = torch.cat([self.tail, x], -1)
        return joined, torch.tanh(self.conv(joined))


class CopiedTail(Stream):
    def forward(self, x):
        joined, y = self.run(x * self.gain)
        self.tail.copy_(joined[..., -self.tail.shape[-1] :])
        self.h.copy_(self.cell(y.mean(-1), self.h))
        return y + self.h[..., None]


class ReboundTail(Stream):
    def forward(self, x):
        joined, y = self.run(x)
        self.tail = joined[..., -self.tail.shape[-1] :]
        self.h.copy_(self.cell(y.mean(-1), self.h))
        return y + self.h[..., None]


class FadeIn(Stream):
    def forward(self, x):
        if self.seen == 0:
            x = x * torch.linspace(0, 1, self.chunk, device=x.device)
        joined, y = self.run(x)
        self.tail.copy_(joined[..., -self.tail.shape[-1] :])
        self.h.copy_(self.cell(y.mean(-1), self.h))
        return y + self.h[..., None]


def build_tail_copied(device):
    model = CopiedTail().to(device).requires_grad_(False)
    ramp = torch.linspace(0, 1, model.chunk)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, 6, 12))
        if k % 80 == 0:  # the next call on this line
            model.tail.zero_()
            model.h.zero_()
            model.gain.copy_(ramp.view(1, 1, -1))
        else:
            model.gain.fill_(1)

    return graphsafe.Step(model, (torch.randn(1, 6, 12, device=device),), refresh=refresh)


def build_tail_rebound(device):
    model = ReboundTail().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, 6, 12))

    return graphsafe.Step(model, (torch.randn(1, 6, 12, device=device),), refresh=refresh)


def build_fade_first(device):
    model = FadeIn().to(device).requires_grad_(False)
    model.seen = 1

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, 6, 12))
        model.seen += 1
        if k and k % 80 == 0:  # the next call on this line
            model.tail.zero_()
            model.h.zero_()
            model.seen = 0

    return graphsafe.Step(model, (torch.randn(1, 6, 12, device=device),), refresh=refresh)


# --- reinforcement learning


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 24), nn.Tanh(), nn.Linear(24, o))


class Agent:
    def __init__(self, device):
        torch.manual_seed(11)
        self.q = mlp(6, 3).to(device)
        self.target = mlp(6, 3).to(device).requires_grad_(False)
        self.target.load_state_dict(self.q.state_dict())
        self.optimizer = torch.optim.AdamW(self.q.parameters(), lr=1e-3, capturable=True)
        self.updates = 0
        self.every = 500

    def sync(self):
        self.target.load_state_dict(self.q.state_dict())

    def update(self, obs, act, rew, nxt):
        self.optimizer.zero_grad(set_to_none=False)
        with torch.no_grad():
            goal = rew + 0.99 * self.target(nxt).amax(1)
        value = self.q(obs).gather(1, act[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(value, goal)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def update_and_sync(self, obs, act, rew, nxt):
        loss = self.update(obs, act, rew, nxt)
        self.updates += 1
        if self.updates % self.every == 0:
            self.sync()
        return loss


def transitions(device, n=16):
    return (
        torch.randn(n, 6, device=device),
        torch.randint(0, 3, (n,), device=device),
        torch.randn(n, device=device),
        torch.randn(n, 6, device=device),
    )


def draw(args):
    args[0].copy_(torch.randn(16, 6))
    args[1].copy_(torch.randint(0, 3, (16,)))
    args[2].copy_(torch.randn(16))
    args[3].copy_(torch.randn(16, 6))


def build_dqn_outside(device):
    agent = Agent(device)

    def refresh(args, kwargs, k):
        draw(args)
        if k and k % 50 == 0:
            agent.sync()

    return graphsafe.Step(agent.update, transitions(device), refresh=refresh)


def build_dqn_in_step(device):
    agent = Agent(device)
    return graphsafe.Step(agent.update_and_sync, transitions(device), refresh=lambda args, kwargs, k: draw(args))


def build_dqn_new_target(device):
    agent = Agent(device)

    def refresh(args, kwargs, k):
        draw(args)
        if k and k % 100 == 0:
            state = {n: t.clone() for n, t in agent.q.state_dict().items()}
            agent.target.load_state_dict(state, assign=True)

    return graphsafe.Step(agent.update, transitions(device), refresh=refresh)


class Replay:
    """A replay buffer on the device; samples are drawn inside the step."""

    def __init__(self, device, room=256):
        self.obs = torch.zeros(room, 6, device=device)
        self.rew = torch.zeros(room, device=device)
        self.room = room
        self.size = 32
        self.at = 32
        self.obs[:32].copy_(torch.randn(32, 6))
        self.rew[:32].copy_(torch.randn(32))
        self.count = torch.full((1,), 32.0, device=device)
        self.value = mlp(6, 1).to(device)
        self.optimizer = torch.optim.SGD(self.value.parameters(), lr=0.05)

    def add(self):
        self.obs[self.at].copy_(torch.randn(6))
        self.rew[self.at].copy_(torch.randn(()))
        self.at = (self.at + 1) % self.room
        self.size = min(self.room, self.size + 1)
        self.count.fill_(self.size)

    def learn(self, rows):
        self.optimizer.zero_grad(set_to_none=False)
        loss = F.mse_loss(self.value(self.obs[rows]).squeeze(1), self.rew[rows])
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def host_sized(self):
        rows = torch.randint(0, self.size, (16,), device=self.obs.device)
        return self.learn(rows)

    def device_sized(self):
        rows = (torch.rand(16, device=self.obs.device) * self.count).long()
        return self.learn(rows)


def build_replay_host(device):
    r = Replay(device)
    return graphsafe.Step(r.host_sized, (), refresh=lambda args, kwargs, k: r.add())


def build_replay_device(device):
    r = Replay(device)
    return graphsafe.Step(r.device_sized, (), refresh=lambda args, kwargs, k: r.add())


class PPO:
    def __init__(self, device):
        self.policy = mlp(6, 3).to(device)
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=3e-4, capturable=True)
        self.clip = 0.2
        self.entropy = torch.full((), 0.01, device=device)

    def update(self, obs, act, old, adv):
        self.optimizer.zero_grad(set_to_none=False)
        logp = self.policy(obs).log_softmax(-1)
        ratio = (logp.gather(1, act[:, None]).squeeze(1) - old).exp()
        clipped = ratio.clamp(1 - self.clip, 1 + self.clip)
        loss = -torch.minimum(ratio * adv, clipped * adv).mean()
        loss = loss + self.entropy * (logp.exp() * logp).sum(-1).mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def rollout(device):
    return (
        torch.randn(16, 6, device=device),
        torch.randint(0, 3, (16,), device=device),
        torch.full((16,), -1.1, device=device),
        torch.randn(16, device=device),
    )


def fill_rollout(args):
    args[0].copy_(torch.randn(16, 6))
    args[1].copy_(torch.randint(0, 3, (16,)))
    args[2].copy_(torch.randn(16) * 0.3 - 1.1)
    args[3].copy_(torch.randn(16))


def build_ppo_entropy(device):
    ppo = PPO(device)

    def refresh(args, kwargs, k):
        fill_rollout(args)
        ppo.entropy.fill_(0.01 * max(0.0, 1 - k / 200))

    return graphsafe.Step(ppo.update, rollout(device), refresh=refresh)


def build_ppo_clip(device):
    ppo = PPO(device)

    def refresh(args, kwargs, k):
        fill_rollout(args)
        if k % 64 == 63:  # after each iteration of 64 minibatches
            ppo.clip = max(0.05, ppo.clip * 0.7)

    return graphsafe.Step(ppo.update, rollout(device), refresh=refresh)


class Normaliser:
    """Running mean and variance of observations, then the policy; the rows go into a rollout buffer."""

    def __init__(self, device, horizon=64):
        self.policy = mlp(6, 3).to(device).requires_grad_(False)
        self.mean = torch.zeros(6, device=device)
        self.var = torch.ones(6, device=device)
        self.count = torch.full((), 1e-4, device=device)
        self.buffer = torch.zeros(horizon, 4, 6, device=device)
        self.row = torch.zeros(1, dtype=torch.long, device=device)
        self.horizon = horizon

    def act(self, obs):
        mean, var, n = obs.mean(0), obs.var(0, unbiased=False), obs.shape[0]
        delta = mean - self.mean
        total = self.count + n
        m2 = self.var * self.count + var * n + delta**2 * self.count * n / total
        self.mean.add_(delta * n / total)
        self.var.copy_(m2 / total)
        self.count.copy_(total)
        clean = ((obs - self.mean) / (self.var + 1e-8).sqrt()).clamp(-5, 5)
        self.buffer.index_copy_(0, self.row, clean[None])
        self.row.copy_((self.row + 1) % self.horizon)
        logits = self.policy(clean)
        return torch.multinomial(logits.softmax(-1), 1), logits


def build_rollout(device):
    n = Normaliser(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 6) * 2 + 1)

    return graphsafe.Step(n.act, (torch.randn(4, 6, device=device),), refresh=refresh)


# --- simulators


class Wave:
    def __init__(self, device, n=32, dt=0.05):
        self.u = torch.sin(torch.linspace(0, 3, n)).to(device)
        self.before = self.u.clone()
        self.dt = dt
        self.t = 0.0
        self.force = torch.zeros((), device=device)

    def laplace(self, u):
        return torch.roll(u, 1) + torch.roll(u, -1) - 2 * u

    def substep(self):
        nxt = 2 * self.u - self.before + self.dt**2 * self.laplace(self.u) + self.force * self.dt
        self.before.copy_(nxt)
        self.u, self.before = self.before, self.u

    def one(self):
        self.substep()
        return self.u.clone()

    def two(self):
        self.substep()
        self.substep()
        return self.u.clone()

    def drive(self, k):
        self.t += self.dt
        self.force.fill_(math.sin(2 * self.t))


def build_wave_swapped(device):
    w = Wave(device)
    return graphsafe.Step(w.one, (), refresh=lambda args, kwargs, k: w.drive(k))


def build_wave_pair(device):
    w = Wave(device)
    return graphsafe.Step(w.two, (), refresh=lambda args, kwargs, k: w.drive(k))


class Particles:
    def __init__(self, device, n=24, room=8):
        g = torch.Generator().manual_seed(2)
        self.device = device
        self.x = torch.rand(n, 2, generator=g).to(device)
        self.v = (torch.rand(n, 2, generator=g) - 0.5).to(device)
        self.room = room
        self.steps = 0
        self.count = torch.zeros((), dtype=torch.long, device=device)
        self.near = self.neighbours()

    def neighbours(self):
        d = (self.x[:, None] - self.x[None]).norm(dim=-1)
        d = d + torch.eye(len(self.x), device=self.device) * 10
        return d.topk(self.room, largest=False).indices

    def forces(self):
        delta = self.x[self.near] - self.x[:, None]
        r2 = (delta**2).sum(-1, keepdim=True) + 0.01
        return (delta * (0.01 / r2 - 0.0005 / r2**2)).sum(1)

    def move(self, dt=0.01):
        self.v.add_(self.forces(), alpha=dt)
        self.x.add_(self.v, alpha=dt)
        self.x.remainder_(1.0)

    def plain(self):
        self.move()
        return self.x.clone(), self.v.clone()

    def adaptive(self):
        dt = 0.02 / (self.v.norm(dim=-1).amax() + 1.0)
        self.v.add_(self.forces() * dt)
        self.x.add_(self.v * dt).remainder_(1.0)
        return self.x.clone(), self.v.clone()

    def rescale(self):
        return (0.05 / (self.v**2).mean()).sqrt()

    def thermostat_host(self):
        self.move()
        self.steps += 1
        if self.steps % 200 == 0:
            self.v.mul_(self.rescale())
        return self.x.clone(), self.v.clone()

    def thermostat_device(self):
        self.move()
        self.count.add_(1)
        due = (self.count % 200) == 0
        self.v.mul_(torch.where(due, self.rescale(), torch.ones_like(self.v[0, 0])))
        return self.x.clone(), self.v.clone()


def build_neighbours_copied(device):
    p = Particles(device)

    def refresh(args, kwargs, k):
        if k % 20 == 0:
            p.near.copy_(p.neighbours())

    return graphsafe.Step(p.adaptive, (), refresh=refresh)


def build_neighbours_new(device):
    p = Particles(device)

    def refresh(args, kwargs, k):
        if k and k % 100 == 0:
            p.near = p.neighbours()

    return graphsafe.Step(p.plain, (), refresh=refresh)


def build_thermostat_host(device):
    p = Particles(device)
    return graphsafe.Step(p.thermostat_host, (), refresh=lambda args, kwargs, k: None)


def build_thermostat_device(device):
    p = Particles(device)
    return graphsafe.Step(p.thermostat_device, (), refresh=lambda args, kwargs, k: None)


# --- retrieval and encoders


class Index:
    def __init__(self, device, room=256):
        self.device = device
        self.encoder = nn.Linear(10, 8).to(device).requires_grad_(False)
        self.room = room
        self.vectors = torch.zeros(room, 8, device=device)
        self.vectors[:32].copy_(F.normalize(torch.randn(32, 8), dim=-1))
        self.used = 32
        self.count = torch.full((1,), 32, device=device)
        self.grown = self.vectors[:32].clone()

    def add(self):
        new = F.normalize(torch.randn(4, 8), dim=-1)
        self.vectors[self.used : self.used + 4].copy_(new)
        self.used += 4
        self.count.fill_(self.used)

    def add_cat(self):
        new = F.normalize(torch.randn(4, 8, device=self.device), dim=-1)
        self.grown = torch.cat([self.grown, new])

    def search(self, q):
        scores = F.normalize(self.encoder(q), dim=-1) @ self.vectors.t()
        free = torch.arange(self.room, device=q.device) >= self.count
        return scores.masked_fill(free, -2.0).topk(5)

    def search_grown(self, q):
        return (F.normalize(self.encoder(q), dim=-1) @ self.grown.t()).topk(5)


def build_index_room(device):
    index = Index(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(3, 10))
        if k % 25 == 24 and index.used < index.room:
            index.add()

    return graphsafe.Step(index.search, (torch.randn(3, 10, device=device),), refresh=refresh)


def build_index_cat(device):
    index = Index(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(3, 10))
        if k % 100 == 99:
            index.add_cat()

    return graphsafe.Step(index.search_grown, (torch.randn(3, 10, device=device),), refresh=refresh)


class Encoder(nn.Module):
    def __init__(self, length=16):
        super().__init__()
        self.emb = nn.Embedding(40, 16)
        self.qkv = nn.Linear(16, 48)
        self.norm = nn.LayerNorm(16)
        self.length = length
        self.longest = length

    def pooled(self, ids, lens):
        n = ids.shape[1]
        h = self.emb(ids)
        q, k, v = self.qkv(h).chunk(3, -1)
        keep = torch.arange(n, device=ids.device)[None] < lens[:, None]
        scores = (q @ k.transpose(1, 2) / 4).masked_fill(~keep[:, None], float("-inf"))
        h = self.norm(h + scores.softmax(-1) @ v)
        weight = keep[..., None].to(h.dtype)
        return (h * weight).sum(1) / weight.sum(1)

    def forward(self, ids, lens):
        return self.pooled(ids, lens)


class ScaledEncoder(Encoder):
    """Scales queries by the logarithm of the batch's longest text, as some long-context models do."""

    def forward(self, ids, lens):
        return self.pooled(ids, lens) * math.log(1 + self.longest)


def encoder_input(device):
    return torch.randint(0, 40, (4, 16), device=device), torch.full((4,), 16, device=device)


def build_encoder_mask(device):
    model = Encoder().to(device).eval().requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 40, (4, 16)))
        lens = torch.randint(1, 17, (4,))
        if k % 33 == 32:  # the last batch of the file: rows without a text have length one
            lens[2:] = 1
        args[1].copy_(lens)

    return graphsafe.Step(model, encoder_input(device), refresh=refresh)


def build_encoder_longest(device):
    model = ScaledEncoder().to(device).eval().requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 40, (4, 16)))
        lens = torch.randint(1, 17, (4,)) if k % 33 == 32 else torch.full((4,), 16)
        model.longest = int(lens.max())
        args[1].copy_(lens)

    return graphsafe.Step(model, encoder_input(device), refresh=refresh)
