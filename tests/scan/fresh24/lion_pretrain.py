"""A language-model training step with Lion, a device-side schedule and gradient accumulation."""
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads, limit):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        hidden = torch.ones(limit, limit, dtype=torch.bool).triu(1)
        self.register_buffer("hidden", hidden, persistent=False)

    def attend(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(self.hidden[:t, :t], float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, vocab, width=32, depth=2, heads=4, limit=64):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.places = nn.Embedding(limit, width)
        self.blocks = nn.ModuleList(Block(width, heads, limit) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.register_buffer("index", torch.arange(limit), persistent=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(self.index[: ids.shape[1]])
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.t()


class WarmupCosine:
    """The rate of step n, computed from a step count that is a tensor."""

    def __init__(self, peak, warmup, total, device):
        self.peak, self.warmup, self.total = peak, warmup, total
        self.step = torch.zeros((), device=device)

    def next(self):
        self.step.add_(1.0)
        ramp = (self.step / self.warmup).clamp_max(1.0)
        done = ((self.step - self.warmup) / (self.total - self.warmup)).clamp(0.0, 1.0)
        return self.peak * ramp * 0.5 * (1.0 + torch.cos(torch.pi * done))


class Lion:
    def __init__(self, params, betas=(0.9, 0.99), decay=0.1):
        self.params = [p for p in params if p.requires_grad]
        self.beta1, self.beta2 = betas
        self.decay = decay
        self.momenta = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def apply(self, grads, rate):
        updates = torch._foreach_mul(self.momenta, self.beta1)
        torch._foreach_add_(updates, grads, alpha=1 - self.beta1)
        torch._foreach_sign_(updates)
        torch._foreach_add_(updates, self.params, alpha=self.decay)
        torch._foreach_mul_(updates, -rate)
        torch._foreach_add_(self.params, updates)
        torch._foreach_lerp_(self.momenta, grads, 1 - self.beta2)


class Pretrainer:
    def __init__(self, model, optimizer, schedule, micro, ceiling=1.0, checks=False):
        self.model, self.optimizer, self.schedule = model, optimizer, schedule
        self.micro, self.ceiling, self.checks = micro, ceiling, checks
        self.total = [torch.zeros_like(p) for p in optimizer.params]
        self.tokens_seen = torch.zeros((), dtype=torch.int64, device=schedule.step.device)

    def micro_loss(self, ids):
        logits = self.model(ids[:, :-1])
        targets = ids[:, 1:]
        weight = (targets != 0).float()
        nll = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        return (nll * weight.flatten()).sum() / weight.sum().clamp_min(1.0)

    def clip(self, grads):
        norm = torch.stack(torch._foreach_norm(grads)).norm()
        torch._foreach_mul_(grads, (self.ceiling / (norm + 1e-6)).clamp_max(1.0))
        return norm

    def verify(self, loss):
        if not torch.isfinite(loss):
            raise FloatingPointError("loss is not finite")

    def step(self, ids):
        torch._foreach_zero_(self.total)
        losses = []
        for part in ids.chunk(self.micro):
            loss = self.micro_loss(part)
            grads = torch.autograd.grad(loss / self.micro, self.optimizer.params)
            torch._foreach_add_(self.total, grads)
            losses.append(loss.detach())
        norm = self.clip(self.total)
        self.optimizer.apply(self.total, self.schedule.next())
        self.tokens_seen.add_(ids.numel())
        loss = torch.stack(losses).mean()
        if self.checks and not torch.cuda.is_current_stream_capturing():
            self.verify(loss)
        return loss, norm


def build(device):
    torch.manual_seed(1)
    model = LanguageModel(vocab=50).to(device)
    schedule = WarmupCosine(1e-3, 20, 400, device)
    trainer = Pretrainer(model, Lion(model.parameters()), schedule, micro=2)
    ids = torch.randint(0, 50, (4, 17), device=device)
    return trainer.step, (ids,)
