import torch
import torch.nn as nn
import torch.nn.functional as F

from graphsafe import Step


def fill(args, kwargs, k):
    args[0].copy_(torch.randn(args[0].shape))
    args[1].copy_(torch.randint(0, 5, args[1].shape))


def batch(device, n=8, d=12):
    return torch.randn(n, d, device=device), torch.randint(0, 5, (n,), device=device)


def build_unfreeze_late(device, warm=1000):
    """Faulty: after 1,000 iterations the loop unfreezes the embedding, but the graph has no backward for it."""
    stem, head = nn.Linear(12, 16).to(device).requires_grad_(False), nn.Linear(16, 5).to(device)
    opt = torch.optim.SGD([*stem.parameters(), *head.parameters()], lr=0.05)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(head(stem(x).relu()), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        if k == warm:
            stem.requires_grad_(True)
        fill(args, kwargs, k)

    return Step(step, batch(device), refresh=refresh)


class Verlet:
    """A neighbour list with a skin: it is made again when a particle has moved half the skin."""

    def __init__(self, device, n=20, m=6, skin=0.5):
        self.pos = torch.rand(n, 2, device=device) * 4
        self.vel = torch.randn(n, 2, device=device) * 0.3
        self.n, self.m, self.skin = n, m, skin
        self.pairs, self.anchor = self.neighbours(), self.pos.clone()

    def neighbours(self):
        far = torch.cdist(self.pos, self.pos) + 1e3 * torch.eye(self.n, device=self.pos.device)
        return far.topk(self.m, dim=1, largest=False).indices

    def moved(self):
        return (self.pos - self.anchor).norm(dim=1).max().item() > self.skin / 2

    def step(self, noise):
        delta = self.pos[:, None] - self.pos[self.pairs]
        r2 = (delta**2).sum(-1, keepdim=True) + 0.05
        force = (delta * (1 / r2**2 - 0.3 / r2)).sum(1) - 0.1 * self.pos
        self.vel.add_(force, alpha=0.005).add_(noise, alpha=0.01)
        self.pos.add_(self.vel, alpha=0.01)
        return (self.vel**2).sum(), force


def build_verlet_skin(device):
    """Faulty: when a particle has moved far enough, the loop assigns a new neighbour list, and the graph keeps the first one."""
    md = Verlet(device)

    def refresh(args, kwargs, k):
        if md.moved():
            md.pairs, md.anchor = md.neighbours(), md.pos.clone()
        args[0].copy_(torch.randn(md.n, 2))

    return Step(md.step, (torch.zeros(md.n, 2, device=device),), refresh=refresh)


def build_verlet_inplace(device):
    """Sound: the loop writes the new neighbour list into the tensor that the graph reads."""
    md = Verlet(device)

    def refresh(args, kwargs, k):
        if md.moved():
            md.pairs.copy_(md.neighbours())
            md.anchor.copy_(md.pos)
        args[0].copy_(torch.randn(md.n, 2))

    return Step(md.step, (torch.zeros(md.n, 2, device=device),), refresh=refresh)


class Reacher:
    def __init__(self, device, envs=8, limit=60):
        self.device, self.envs, self.limit = device, envs, limit
        self.policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)).to(device).requires_grad_(False)
        self.reset()

    def reset(self):
        self.state = torch.randn(self.envs, 4, device=self.device)
        self.length = torch.zeros(self.envs, device=self.device)

    def reset_inplace(self):
        self.state.copy_(torch.randn(self.envs, 4, device=self.device))
        self.length.zero_()

    def step(self, noise):
        action = torch.tanh(self.policy(self.state) + 0.1 * noise)
        self.state.add_(0.05 * torch.cat((self.state[:, 2:], action), 1)).clamp_(-3, 3)
        self.length.add_(1)
        return -self.state[:, :2].norm(dim=1), self.state.clone()


def build_episode_end(device):
    """Faulty: when the episode's length, read from the device, reaches its limit, the loop's reset makes new state tensors."""
    env = Reacher(device)

    def refresh(args, kwargs, k):
        if env.length.max().item() >= env.limit:
            env.reset()
        args[0].copy_(torch.randn(env.envs, 2))

    return Step(env.step, (torch.zeros(env.envs, 2, device=device),), refresh=refresh)


def build_episode_inplace(device):
    """Sound: at the end of an episode the loop writes the new state in place."""
    env = Reacher(device)

    def refresh(args, kwargs, k):
        if env.length.max().item() >= env.limit:
            env.reset_inplace()
        args[0].copy_(torch.randn(env.envs, 2))

    return Step(env.step, (torch.zeros(env.envs, 2, device=device),), refresh=refresh)


def build_plateau_float(device):
    """Faulty: the plateau scheduler lowers a float rate after some bad epochs, and the graph keeps the first rate."""
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=6)
    seen = {"loss": None}

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        seen["loss"] = loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        if seen["loss"] is not None and k % 5 == 4:
            plateau.step(seen["loss"].item())
        fill(args, kwargs, k)

    return Step(step, batch(device), refresh=refresh)


class GrowingCache:
    def __init__(self, device, capacity=128, d=16):
        self.k, self.v = torch.zeros(1, capacity, d, device=device), torch.zeros(1, capacity, d, device=device)
        self.pos = torch.full((1,), 8, dtype=torch.long, device=device)
        self.qkv = nn.Linear(d, 3 * d).to(device).requires_grad_(False)

    def ensure_room(self):
        if self.pos.item() + 1 >= self.k.shape[1]:
            self.k = torch.cat((self.k, torch.zeros_like(self.k)), 1)
            self.v = torch.cat((self.v, torch.zeros_like(self.v)), 1)

    def step(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.k.index_copy_(1, self.pos, k)
        self.v.index_copy_(1, self.pos, v)
        valid = torch.arange(self.k.shape[1], device=x.device) <= self.pos
        self.pos.add_(1)
        return F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=valid[None, None])


def build_cache_doubles(device):
    """Faulty: when the position on the device reaches the capacity, the loop doubles the cache into new tensors."""
    cache = GrowingCache(device)

    def refresh(args, kwargs, k):
        cache.ensure_room()
        args[0].copy_(torch.randn(1, 1, 16))

    return Step(cache.step, (torch.randn(1, 1, 16, device=device),), refresh=refresh)


class HostScaler:
    """Dynamic loss scale of apex: a float, halved on overflow and doubled after 2,000 clean steps."""

    def __init__(self, device):
        self.scale, self.clean, self.overflow = 128.0, 0, torch.zeros((), device=device)

    def update(self):
        if self.overflow.item() > 0:
            self.scale, self.clean = max(self.scale / 2, 1.0), 0
            return
        self.clean += 1
        if self.clean >= 2000:
            self.scale, self.clean = self.scale * 2, 0


def build_host_scaler(device):
    """Faulty: the loss scale is a float that the loop doubles after 2,000 clean steps, frozen in the graph."""
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5)).to(device)
    scaler = HostScaler(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        scaled = (loss * scaler.scale).clamp(max=60000.0)
        scaled.backward()
        for p in model.parameters():
            p.grad.div_(scaler.scale)
        scaler.overflow.copy_(torch.stack([(~p.grad.isfinite()).any() for p in model.parameters()]).any())
        opt.step()
        return loss.detach(), scaled.detach()

    def refresh(args, kwargs, k):
        scaler.update()
        fill(args, kwargs, k)

    return Step(step, batch(device), refresh=refresh)


class Vq(nn.Module):
    def __init__(self, codes=16, d=8):
        super().__init__()
        self.encoder = nn.Linear(12, d)
        self.register_buffer("codebook", torch.randn(codes, d))
        self.register_buffer("usage", torch.ones(codes))

    def forward(self, x):
        z = self.encoder(x)
        index = torch.cdist(z, self.codebook).argmin(1)
        onehot = F.one_hot(index, self.codebook.shape[0]).to(z.dtype)
        self.usage.mul_(0.95).add_(onehot.sum(0), alpha=0.05)
        return self.codebook[index], z - self.codebook[index]


def build_codebook_restart(device):
    """Faulty: the loop replaces the codebook when a code's usage, averaged over many steps, has died, and the graph keeps the old one."""
    vq = Vq().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        dead = vq.usage < 0.03
        if dead.any():
            vq.codebook = torch.where(dead[:, None], torch.randn_like(vq.codebook), vq.codebook)
            vq.usage.masked_fill_(dead, 1.0)
        args[0].copy_(torch.randn(6, 12))

    return Step(vq, (torch.randn(6, 12, device=device),), refresh=refresh)


def build_closed_system(device, n=24):
    """Sound: a wave equation with two fields updated in place; the loop has nothing to write between steps."""
    u, v = torch.randn(n, n, device=device), torch.zeros(n, n, device=device)
    kernel = torch.tensor([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])[None, None].to(device)

    def step():
        lap = F.conv2d(F.pad(u[None, None], (1, 1, 1, 1), mode="circular"), kernel)[0, 0]
        v.add_(lap, alpha=0.1)
        u.add_(v, alpha=0.1)
        return (v**2).mean() + (u * -lap).mean()

    return Step(step)


class Moco(nn.Module):
    def __init__(self, d=12, out=8, size=32):
        super().__init__()
        self.query = nn.Sequential(nn.Linear(d, 16), nn.ReLU(), nn.Linear(16, out))
        self.key = nn.Sequential(nn.Linear(d, 16), nn.ReLU(), nn.Linear(16, out)).requires_grad_(False)
        self.key.load_state_dict(self.query.state_dict())
        self.register_buffer("queue", F.normalize(torch.randn(size, out), dim=1))
        self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

    def forward(self, a, b):
        q = F.normalize(self.query(a), dim=1)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.key.parameters()), list(self.query.parameters()), 0.01)
            k = F.normalize(self.key(b), dim=1)
        logits = torch.cat(((q * k).sum(1, keepdim=True), q @ self.queue.clone().t()), 1) / 0.2
        rows = (self.ptr + torch.arange(len(k), device=k.device)) % self.queue.shape[0]
        self.queue.index_copy_(0, rows, k)
        self.ptr.add_(len(k)).remainder_(self.queue.shape[0])
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))


def build_moco(device):
    """Sound: the queue, its pointer and the key encoder are updated in place on the device."""
    model = Moco().to(device)
    opt = torch.optim.SGD(model.query.parameters(), lr=0.05, momentum=0.9)

    def step(a, b):
        opt.zero_grad(set_to_none=False)
        loss = model(a, b)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        x = torch.randn(4, 12)
        args[0].copy_(x + 0.1 * torch.randn(4, 12))
        args[1].copy_(x + 0.1 * torch.randn(4, 12))

    return Step(step, (torch.randn(4, 12, device=device), torch.randn(4, 12, device=device)), refresh=refresh)


def build_gan(device):
    """Sound: both optimizers are captured with static gradients, and the noise comes from the default generator."""
    gen = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6)).to(device)
    dis = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(16, 1)).to(device)
    og = torch.optim.Adam(gen.parameters(), lr=2e-4, betas=(0.5, 0.999), capturable=True)
    od = torch.optim.Adam(dis.parameters(), lr=2e-4, betas=(0.5, 0.999), capturable=True)

    def step(real):
        od.zero_grad(set_to_none=False)
        fake = gen(torch.randn(real.shape[0], 4, device=device))
        loss_d = F.softplus(-dis(real)).mean() + F.softplus(dis(fake.detach())).mean()
        loss_d.backward()
        od.step()
        og.zero_grad(set_to_none=False)
        loss_g = F.softplus(-dis(fake)).mean()
        loss_g.backward()
        og.step()
        return loss_d.detach(), loss_g.detach()

    return Step(step, (torch.randn(8, 6, device=device),), refresh=lambda args, kwargs, k: args[0].copy_(torch.randn(8, 6)))
