"""More training steps: library schedulers, parameter groups, lookahead, metrics, queues, adversarial training."""
import io

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe

IN, OUT, N = 10, 4, 8


def net(device, norm=False):
    torch.manual_seed(5)
    middle = [nn.BatchNorm1d(20)] if norm else []
    return nn.Sequential(nn.Linear(IN, 20), *middle, nn.GELU(), nn.Linear(20, OUT)).to(device)


def batch(device):
    return torch.randn(N, IN, device=device), torch.randint(0, OUT, (N,), device=device)


def fill(args):
    args[0].copy_(torch.randn(N, IN))
    args[1].copy_(torch.randint(0, OUT, (N,)))


def adamw(model, device, lr=1e-3):
    return torch.optim.AdamW(model.parameters(), lr=torch.tensor(lr, device=device), capturable=True)


class Trainer:
    def __init__(self, device, model=None, optimizer=None):
        self.model = model or net(device)
        self.optimizer = optimizer or adamw(self.model, device)
        self.smoothing = 0.0
        self.kl_weight = 0.0
        self.total = torch.zeros((), device=device)
        self.seen = torch.zeros((), device=device)

    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y, label_smoothing=self.smoothing)

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def metered(self, x, y):
        loss = self.step(x, y)
        self.total.add_(loss)
        self.seen.add_(1)
        return self.total / self.seen


def build_onecycle_betas(device):
    t = Trainer(device)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(t.optimizer, max_lr=1e-2, total_steps=2000)

    def refresh(args, kwargs, k):
        fill(args)
        scheduler.step()

    return graphsafe.Step(t.step, batch(device), refresh=refresh)


def build_onecycle_lr(device):
    t = Trainer(device)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(t.optimizer, max_lr=1e-2, total_steps=20000, cycle_momentum=False)

    def refresh(args, kwargs, k):
        fill(args)
        scheduler.step()

    return graphsafe.Step(t.step, batch(device), refresh=refresh)


def build_lambda_lr(device):
    t = Trainer(device)
    scheduler = torch.optim.lr_scheduler.LambdaLR(t.optimizer, lambda n: min(1.0, (n + 1) / 100) * 0.999**n)

    def refresh(args, kwargs, k):
        fill(args)
        scheduler.step()

    return graphsafe.Step(t.step, batch(device), refresh=refresh)


def build_decay_schedule(device):
    t = Trainer(device)

    def refresh(args, kwargs, k):
        fill(args)
        if k and k % 50 == 0:  # cosine-like weight decay, once an epoch
            t.optimizer.param_groups[0]["weight_decay"] = 0.04 + 0.01 * min(36, k // 50)

    return graphsafe.Step(t.step, batch(device), refresh=refresh)


def build_new_group(device):
    model = net(device)
    head, body = list(model[-1].parameters()), list(model[0].parameters())
    t = Trainer(device, model, torch.optim.SGD(head, lr=0.05))

    def refresh(args, kwargs, k):
        fill(args)
        if k == 100:  # the body is trained too, with a smaller rate
            t.optimizer.add_param_group({"params": body, "lr": 0.005})

    return graphsafe.Step(t.step, batch(device), refresh=refresh)


def build_smoothing_epoch(device):
    t = Trainer(device)

    def refresh(args, kwargs, k):
        fill(args)
        if k == 120:  # the last epochs train without label smoothing
            t.smoothing = 0.0

    t.smoothing = 0.1
    return graphsafe.Step(t.step, batch(device), refresh=refresh)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(IN, 8)
        self.dec = nn.Linear(4, IN)

    def forward(self, x):
        mean, logvar = self.enc(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (logvar / 2).exp()
        kl = 0.5 * (mean**2 + logvar.exp() - 1 - logvar).sum(-1).mean()
        return F.mse_loss(self.dec(z), x), kl


def vae_step(model, optimizer, weight):
    def step(x):
        optimizer.zero_grad(set_to_none=False)
        mse, kl = model(x)
        loss = mse + weight() * kl
        loss.backward()
        optimizer.step()
        return mse.detach(), kl.detach()

    return step


def build_kl_python(device):
    model = VAE().to(device)
    beta = {"now": 0.0}

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(N, IN))
        epoch = k // 80
        beta["now"] = min(1.0, 0.25 * epoch)

    step = vae_step(model, adamw(model, device), lambda: beta["now"])
    return graphsafe.Step(step, (torch.randn(N, IN, device=device),), refresh=refresh)


def build_kl_tensor(device):
    model = VAE().to(device)
    beta = torch.zeros((), device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(N, IN))
        beta.fill_(min(1.0, 0.25 * (k // 80)))

    step = vae_step(model, adamw(model, device), lambda: beta)
    return graphsafe.Step(step, (torch.randn(N, IN, device=device),), refresh=refresh)


class Lookahead:
    def __init__(self, params, inner, every=6, alpha=0.5):
        self.params = list(params)
        self.slow = [p.detach().clone() for p in self.params]
        self.inner = inner
        self.every = every
        self.alpha = alpha
        self.n = 0

    @torch.no_grad()
    def pull(self):
        for p, s in zip(self.params, self.slow):
            s.lerp_(p, self.alpha)
            p.copy_(s)

    def zero_grad(self, set_to_none=True):
        self.inner.zero_grad(set_to_none=set_to_none)

    def step(self):
        self.inner.step()
        self.n += 1
        if self.n % self.every == 0:
            self.pull()


def build_lookahead_inside(device):
    model = net(device)
    t = Trainer(device, model, Lookahead(model.parameters(), torch.optim.SGD(model.parameters(), lr=0.05)))
    return graphsafe.Step(t.step, batch(device), refresh=lambda args, kwargs, k: fill(args))


def build_lookahead_outside(device):
    model = net(device)
    inner = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    look = Lookahead(model.parameters(), inner)
    t = Trainer(device, model, inner)

    def refresh(args, kwargs, k):
        if k and k % look.every == 0:
            look.pull()
        fill(args)

    return graphsafe.Step(t.step, batch(device), refresh=refresh)


def build_batchnorm(device):
    model = net(device, norm=True)
    t = Trainer(device, model)
    held_out = torch.randn(12, IN, device=device)
    history = []

    def refresh(args, kwargs, k):
        fill(args)
        if k and k % 60 == 0:
            model.eval()
            with torch.no_grad():
                history.append(model(held_out).mean().item())
            model.train()
            torch.save(model.state_dict(), io.BytesIO())

    return graphsafe.Step(t.step, batch(device), refresh=refresh)


def build_batchnorm_frozen(device):
    model = net(device, norm=True)
    t = Trainer(device, model)

    def refresh(args, kwargs, k):
        fill(args)
        if k == 140:  # statistics are frozen for the rest of the training
            for m in model.modules():
                if isinstance(m, nn.BatchNorm1d):
                    m.eval()

    return graphsafe.Step(t.step, batch(device), refresh=refresh)


def build_meter_zeroed(device):
    t = Trainer(device)
    logs = []

    def refresh(args, kwargs, k):
        fill(args)
        if k and k % 50 == 0:
            logs.append((t.total / t.seen).item())
            t.total.zero_()
            t.seen.zero_()

    return graphsafe.Step(t.metered, batch(device), refresh=refresh)


def build_meter_new(device):
    t = Trainer(device)
    logs = []

    def refresh(args, kwargs, k):
        fill(args)
        if k and k % 100 == 0:
            logs.append((t.total / t.seen).item())
            t.total = torch.zeros((), device=device)
            t.seen = torch.zeros((), device=device)

    return graphsafe.Step(t.metered, batch(device), refresh=refresh)


class Moco:
    def __init__(self, device, room=32):
        self.encoder = nn.Linear(IN, 6).to(device)
        self.slow = nn.Linear(IN, 6).to(device).requires_grad_(False)
        self.slow.load_state_dict(self.encoder.state_dict())
        self.queue = F.normalize(torch.randn(room, 6), dim=-1).to(device)
        self.room = room
        self.ptr = 0
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        self.rows = torch.arange(N, device=device)
        self.optimizer = torch.optim.SGD(self.encoder.parameters(), lr=0.05)

    def learn(self, a, b):
        self.optimizer.zero_grad(set_to_none=False)
        q = F.normalize(self.encoder(a), dim=-1)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.slow.parameters()), list(self.encoder.parameters()), 0.01)
            k = F.normalize(self.slow(b), dim=-1)
        logits = torch.cat([(q * k).sum(-1, keepdim=True), q @ self.queue.t()], 1) / 0.1
        loss = (logits.logsumexp(1) - logits[:, 0]).mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach(), k

    def host(self, a, b):
        loss, k = self.learn(a, b)
        self.queue[self.ptr : self.ptr + N].copy_(k)
        self.ptr = (self.ptr + N) % self.room
        return loss

    def device(self, a, b):
        loss, k = self.learn(a, b)
        self.queue.index_copy_(0, (self.rows + self.at) % self.room, k)
        self.at.add_(N).remainder_(self.room)
        return loss


def two_views(args, kwargs, k):
    args[0].copy_(torch.randn(N, IN))
    args[1].copy_(args[0].cpu() + 0.1 * torch.randn(N, IN))


def build_moco_host(device):
    m = Moco(device)
    args = (torch.randn(N, IN, device=device), torch.randn(N, IN, device=device))
    return graphsafe.Step(m.host, args, refresh=two_views)


def build_moco_device(device):
    m = Moco(device)
    args = (torch.randn(N, IN, device=device), torch.randn(N, IN, device=device))
    return graphsafe.Step(m.device, args, refresh=two_views)


class Gan:
    def __init__(self, device):
        self.g = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, IN)).to(device)
        self.d = nn.Sequential(nn.Linear(IN, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
        self.opt_g = torch.optim.SGD(self.g.parameters(), lr=0.01)
        self.opt_d = torch.optim.SGD(self.d.parameters(), lr=0.01)
        self.n = 0
        self.start = 300

    def critic(self, real):
        fake = self.g(torch.randn(N, 4, device=real.device)).detach()
        mix = (real + fake).div(2).requires_grad_(True)
        (grad,) = torch.autograd.grad(self.d(mix).sum(), mix, create_graph=True)
        penalty = ((grad.norm(dim=-1) - 1) ** 2).mean()
        loss = self.d(fake).mean() - self.d(real).mean() + 10 * penalty
        self.opt_d.zero_grad(set_to_none=False)
        loss.backward()
        self.opt_d.step()
        return loss.detach()

    def generator(self, real):
        loss = -self.d(self.g(torch.randn(N, 4, device=real.device))).mean()
        self.opt_g.zero_grad(set_to_none=False)
        loss.backward()
        self.opt_g.step()
        return loss.detach()

    def both(self, real):
        return self.critic(real), self.generator(real)

    def delayed(self, real):
        loss = self.critic(real)
        self.n += 1
        if self.n > self.start:
            self.generator(real)
        return loss


def build_gan_both(device):
    gan = Gan(device)
    return graphsafe.Step(
        gan.both, (torch.randn(N, IN, device=device),), refresh=lambda args, kwargs, k: args[0].copy_(torch.randn(N, IN))
    )


def build_gan_delayed(device):
    gan = Gan(device)
    return graphsafe.Step(
        gan.delayed,
        (torch.randn(N, IN, device=device),),
        refresh=lambda args, kwargs, k: args[0].copy_(torch.randn(N, IN)),
    )


class Prefetcher:
    """Two device buffers; the next batch is written to one while the step reads the other."""

    def __init__(self, device):
        self.buffers = [batch(device), batch(device)]
        self.x, self.y = self.buffers[0]
        self.trainer = Trainer(device)

    def flip(self, k):
        fill(self.buffers[k % 2])
        self.x, self.y = self.buffers[k % 2]

    def move(self, k):
        fill(self.buffers[1])
        self.x.copy_(self.buffers[1][0])
        self.y.copy_(self.buffers[1][1])

    def step(self):
        return self.trainer.step(self.x, self.y)


def build_prefetch_flip(device):
    p = Prefetcher(device)
    return graphsafe.Step(p.step, (), refresh=lambda args, kwargs, k: p.flip(k))


def build_prefetch_move(device):
    p = Prefetcher(device)
    return graphsafe.Step(p.step, (), refresh=lambda args, kwargs, k: p.move(k))
