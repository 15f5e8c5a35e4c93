"""Training steps: mixed precision, averaging, clipping, schedules and noise."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def mlp(device, *widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b, device=device), nn.SiLU()]
    return nn.Sequential(*layers[:-1])


def batch(device, rows=8, width=6):
    return torch.randn(rows, width, device=device), torch.randn(rows, 2, device=device)


class ScaledTrainer:
    def __init__(self, device, make):
        self.net = mlp(device, 6, 12, 2)
        self.opt = make(self.net.parameters())
        self.scaler = torch.amp.GradScaler(device.type, init_scale=256.0, growth_interval=20)

    def __call__(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = F.smooth_l1_loss(self.net(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.detach(), self.net[0].weight.detach().clone()


def build_scaled_sgd(device):
    return ScaledTrainer(device, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)), batch(device)


def build_scaled_adam(device):
    on_card = device.type == "cuda"
    return ScaledTrainer(device, lambda p: torch.optim.Adam(p, lr=0.01, fused=True, capturable=on_card)), batch(device)


class AveragedTrainer:
    """Evaluates with the moving average of the weights."""

    def __init__(self, device):
        self.net = mlp(device, 6, 10, 2)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.average = AveragedModel(self.net, multi_avg_fn=get_ema_multi_avg_fn(0.95))

    def __call__(self, x, y):
        self.opt.zero_grad()
        F.mse_loss(self.net(x), y).backward()
        self.opt.step()
        self.average.update_parameters(self.net)
        with torch.no_grad():
            return self.average(x)


def build_averaged_trainer(device):
    return AveragedTrainer(device), batch(device)


class AutoClip:
    """Clips to the mean norm of the latest gradients."""

    def __init__(self, device):
        self.net = mlp(device, 6, 8, 2)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.2)
        self.norms = []

    def __call__(self, x, y):
        self.opt.zero_grad()
        F.mse_loss(self.net(x), y).backward()
        grads = [p.grad for p in self.net.parameters()]
        norm = torch.nn.utils.get_total_norm(grads)
        self.norms.append(norm)
        limit = torch.stack(self.norms[-10:]).mean() * 0.5
        torch._foreach_mul_(grads, (limit / norm).clamp(max=1.0))
        self.opt.step()
        return norm, limit, self.net(x).detach()


def build_auto_clip(device):
    return AutoClip(device), batch(device)


class Scheduled:
    def __init__(self, device, make_opt, make_schedule):
        self.net = mlp(device, 6, 8, 2)
        self.opt = make_opt(self.net.parameters())
        self.schedule = make_schedule(self.opt)

    def __call__(self, x, y):
        self.opt.zero_grad()
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.opt.step()
        self.schedule.step()
        return loss.detach(), self.net[2].weight.detach().clone()


def build_cosine_sgd(device):
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR
    return Scheduled(device, lambda p: torch.optim.SGD(p, lr=0.3), lambda o: cosine(o, T_max=40)), batch(device)


def build_decayed_adam(device):
    rate = torch.tensor(0.02, device=device)
    decay = torch.optim.lr_scheduler.ExponentialLR
    return Scheduled(device, lambda p: torch.optim.Adam(p, lr=rate, capturable=device.type == "cuda"), lambda o: decay(o, 0.98)), batch(device)


class Critic:
    """Critic with a gradient penalty, clipped gradients and a slow copy that judges."""

    def __init__(self, device):
        self.net, self.slow = mlp(device, 6, 16, 1), mlp(device, 6, 16, 1)
        self.slow.load_state_dict(self.net.state_dict())
        self.params, self.slow_params = list(self.net.parameters()), list(self.slow.parameters())
        self.opt = torch.optim.SGD(self.params, lr=0.02, momentum=0.8)

    def __call__(self, real, fake):
        self.opt.zero_grad(set_to_none=False)
        mid = ((real + fake) / 2).detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.net(mid).sum(), mid, create_graph=True)
        penalty = (slope.norm(dim=-1) - 1).square().mean()
        loss = self.net(fake).mean() - self.net(real).mean() + 10 * penalty
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        self.opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.slow_params, self.params, 0.1)
            return norm, self.slow(real)


def build_critic(device):
    return Critic(device), (torch.randn(8, 6, device=device), torch.randn(8, 6, device=device))


class ForkedDropout(nn.Module):
    """Monte Carlo dropout that leaves the global stream of random numbers as it was."""

    def __init__(self, device, cards):
        super().__init__()
        self.net = mlp(device, 6, 32, 3)
        self.cards = cards

    @torch.no_grad()
    def forward(self, x):
        base = torch.rand_like(x) * 0.1 + x
        with torch.random.fork_rng(devices=self.cards):
            votes = [self.net[2](F.dropout(self.net[1](self.net[0](base)), 0.3)) for _ in range(4)]
        return torch.stack(votes).var(0) + torch.rand(3, device=x.device)


def build_forked_dropout(device):
    return ForkedDropout(device, [0] if device.type == "cuda" else []), (torch.randn(4, 6, device=device),)


def build_forked_dropout_host(device):
    return ForkedDropout(device, []), (torch.randn(4, 6, device=device),)


class NoisedDenoiser:
    """One training loss of a denoiser whose noise level is drawn from a log-normal law."""

    def __init__(self, device):
        self.net = mlp(device, 7, 16, 6)
        self.levels = np.random.default_rng(7)

    @torch.no_grad()
    def __call__(self, clean):
        sigma = float(np.exp(self.levels.normal(-1.2, 1.2)))
        noisy = clean + sigma * torch.randn_like(clean)
        level = torch.full_like(clean[:, :1], 0.25).mul_(np.log(sigma))
        return F.mse_loss(self.net(torch.cat((noisy, level), 1)), clean, reduction="none").mean(1)


def build_noised_denoiser(device):
    return NoisedDenoiser(device), (torch.randn(8, 6, device=device),)


class PerturbedPolicy:
    """Explores with noise from the agent's own generator."""

    def __init__(self, device, own):
        maker = torch.Generator(device).manual_seed(11)
        self.weight = torch.randn(6, 3, device=device, generator=maker)
        self.generator = maker if own else None

    @torch.no_grad()
    def __call__(self, state):
        logits = state @ self.weight
        race = torch.empty_like(logits).exponential_(generator=self.generator)
        chosen = (logits.softmax(-1) / race).argmax(-1)
        return F.one_hot(chosen, 3) * logits


def build_perturbed_policy(device):
    return PerturbedPolicy(device, True), (torch.randn(16, 6, device=device),)


def build_perturbed_policy_shared(device):
    return PerturbedPolicy(device, False), (torch.randn(16, 6, device=device),)
