"""Training steps with optimisers, averages and helpers written by hand."""

import collections
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F


# --- Adagrad whose rate decays --------------------------------------------------------------------------------------
class DecayedAdagrad:
    def __init__(self, device):
        self.net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
        self.opt = torch.optim.Adagrad(self.net.parameters(), lr=0.2, lr_decay=0.05)

    def __call__(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.opt.step()
        return loss.detach(), self.net[2].weight.detach().clone()


def build_adagrad_decay(device):
    return DecayedAdagrad(device), (torch.randn(16, 6, device=device), torch.randn(16, 1, device=device))


# --- decay and gradient norm overlapped -----------------------------------------------------------------------------
class OverlappedDecay:
    """The norm of the gradient is taken on a second stream while the first prepares weight decay."""

    def __init__(self, device, width=16):
        self.accel = torch.get_device_module(device)
        self.side = self.accel.Stream(device)
        self.w = torch.randn(width, width, device=device) * 0.2
        self.scratch = torch.zeros(width, width, device=device)
        self.norm = torch.zeros((), device=device)

    @torch.no_grad()
    def __call__(self, x, target):
        error = x @ self.w - target
        grad = x.t() @ error / x.shape[0]
        main = self.accel.current_stream(x.device)
        self.side.wait_stream(main)
        with self.accel.stream(self.side):
            torch.mul(grad, grad, out=self.scratch)
            self.norm.copy_(self.scratch.sum().sqrt())
        decay = torch.mul(self.w, 0.02, out=self.scratch)
        grad = grad + decay
        main.wait_stream(self.side)
        self.w.sub_(0.05 * grad / (self.norm + 1.0))
        return self.w.clone(), self.norm.clone()


def build_overlapped_decay(device):
    return OverlappedDecay(device), (torch.randn(8, 16, device=device), torch.randn(8, 16, device=device))


# --- exponential moving average -------------------------------------------------------------------------------------
class AveragedTrainer:
    """Plain gradient descent; predictions come from the averaged weights."""

    def __init__(self, device, width=6):
        self.params = [torch.randn(width, width, device=device) * 0.3, torch.zeros(width, device=device)]
        self.shadow = [p.clone() for p in self.params]
        self.decay = 0.95

    def grads(self, x, y):
        w, b = self.params
        error = x @ w + b - y
        return x.t() @ error / len(x), error.mean(0)

    @torch.no_grad()
    def __call__(self, x, y):
        for p, g in zip(self.params, self.grads(x, y)):
            p.sub_(g, alpha=0.05)
        self.shadow = [torch.lerp(p, s, self.decay) for s, p in zip(self.shadow, self.params)]
        return x @ self.shadow[0] + self.shadow[1]


def build_averaged_trainer(device):
    return AveragedTrainer(device), (torch.randn(12, 6, device=device), torch.randn(12, 6, device=device) + 1.0)


# --- clipping in a gradient hook ------------------------------------------------------------------------------------
class HookedRegressor(nn.Module):
    """A hook clips the gradient; once training has settled, it clips harder."""

    def __init__(self, device, width=8):
        super().__init__()
        self.w = nn.Parameter(torch.randn(width, device=device) * 0.1)
        self.meter = collections.Counter()
        self.w.register_hook(self.clip)

    def clip(self, grad):
        self.meter["grads"] += 1
        bound = 0.5 if self.meter["grads"] <= 50 else 0.01
        return grad.clamp(-bound, bound)

    def forward(self, x, y):
        loss = F.smooth_l1_loss(x @ self.w, y)
        loss.backward()
        with torch.no_grad():
            self.w.sub_(self.w.grad, alpha=0.2)
        self.w.grad = None
        return loss.detach(), self.w.detach().clone()


def build_hooked_clip(device):
    return HookedRegressor(device), (torch.randn(16, 8, device=device), torch.randn(16, device=device) + 2.0)


# --- gradual unfreezing ---------------------------------------------------------------------------------------------
class GradualUnfreeze(nn.Module):
    """The backbone starts frozen and joins the training later."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(6, 10).requires_grad_(False)
        self.head = nn.Linear(10, 2)
        self.clock = itertools.count()

    def forward(self, x, y):
        if next(self.clock) == 100:
            self.backbone.requires_grad_(True)
        loss = F.mse_loss(self.head(torch.tanh(self.backbone(x))), y)
        loss.backward()
        with torch.no_grad():
            for p in self.parameters():
                if p.grad is not None:
                    p.sub_(p.grad, alpha=0.1)
                    p.grad = None
        return loss.detach(), self.backbone.weight.detach().clone()


def build_gradual_unfreeze(device):
    return GradualUnfreeze().to(device), (torch.randn(16, 6, device=device), torch.randn(16, 2, device=device))


# --- a teacher that appears late ------------------------------------------------------------------------------------
def build_late_teacher(device):
    w = torch.randn(6, 4, device=device) * 0.3
    marks, teacher = [], None

    @torch.no_grad()
    def step(x, y):
        nonlocal teacher
        marks.append(x.shape[0])
        if teacher is None and len(marks) >= 60:
            teacher = w.clone()
        error = x @ w - y
        if teacher is not None:
            error = error + 0.5 * (x @ (w - teacher))
        w.sub_(x.t() @ error / x.shape[0], alpha=0.05)
        return w.clone(), error.square().mean()

    return step, (torch.randn(10, 6, device=device), torch.randn(10, 4, device=device))


# --- Adagrad as it comes --------------------------------------------------------------------------------------------
class PlainAdagrad:
    """The optimiser counts its steps on the host, and this one multiplies the count by zero."""

    def __init__(self, device):
        self.net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
        self.opt = torch.optim.Adagrad(self.net.parameters(), lr=0.1, lr_decay=0.0)
        self.epochs = 0

    def __call__(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.opt.step()
        self.epochs += 1
        return loss.detach(), self.net[2].weight.detach().clone()


def build_adagrad_plain(device):
    return PlainAdagrad(device), (torch.randn(16, 6, device=device), torch.randn(16, 1, device=device))


# --- Lion with its warm-up on the device ----------------------------------------------------------------------------
class ForeachLion:
    def __init__(self, device, lr=2e-3):
        self.params = [torch.randn(6, 8, device=device) * 0.3, torch.randn(8, 2, device=device) * 0.3]
        self.momentum = [torch.zeros_like(p) for p in self.params]
        self.count = torch.zeros((), device=device)
        self.lr = lr
        self.history = collections.deque(maxlen=100)
        self.steps = 0

    def __call__(self, x, y):
        leaves = [p.detach().requires_grad_() for p in self.params]
        loss = F.mse_loss(torch.relu(x @ leaves[0]) @ leaves[1], y)
        grads = list(torch.autograd.grad(loss, leaves))
        self.count.add_(1)
        rate = (self.count / 50).clamp(max=1.0) * -self.lr
        update = torch._foreach_lerp(self.momentum, grads, 0.1)
        update = torch._foreach_sign(update)
        torch._foreach_mul_(update, rate)
        torch._foreach_mul_(self.params, 1 - 1e-3)
        torch._foreach_add_(self.params, update)
        torch._foreach_lerp_(self.momentum, grads, 0.01)
        self.steps += 1
        self.history.append(("lion", self.steps))
        return loss.detach(), self.params[1].clone()


def build_foreach_lion(device):
    return ForeachLion(device), (torch.randn(16, 6, device=device), torch.randn(16, 2, device=device))


# --- Polyak averaging with a device-side weight ---------------------------------------------------------------------
class PolyakNet(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.w = nn.Parameter(torch.randn(width, width) * 0.3)
        self.register_buffer("mean", torch.zeros(width, width))
        self.register_buffer("t", torch.zeros(()))

    def forward(self, x, y):
        loss = F.huber_loss(torch.tanh(x @ self.w), y)
        (g,) = torch.autograd.grad(loss, [self.w])
        with torch.no_grad():
            self.w.sub_(g, alpha=0.1)
            self.t.add_(1)
            share = (1.0 / (self.t + 1.0)).clamp(min=0.02)
            self.mean = self.mean.lerp_(self.w, share)
        return loss.detach(), x @ self.mean


def build_polyak_device(device):
    return PolyakNet().to(device), (torch.randn(8, 6, device=device), torch.rand(8, 6, device=device) - 0.5)


# --- class prototypes -----------------------------------------------------------------------------------------------
class Prototypes(nn.Module):
    """Class means by float atomics; classes without a member keep their old mean."""

    def __init__(self, classes=5, width=7):
        super().__init__()
        self.embed = nn.Linear(width, width)
        self.register_buffer("centers", torch.zeros(classes, width))
        self.batches = []

    @torch.no_grad()
    def forward(self, x, labels):
        z = torch.tanh(self.embed(x))
        sums = torch.zeros_like(self.centers).index_add_(0, labels, z)
        sizes = torch.zeros_like(self.centers[:, :1]).index_add_(0, labels, torch.ones_like(z[:, :1]))
        fresh = torch.where(sizes > 0, sums / sizes.clamp(min=1), self.centers)
        self.centers.lerp_(fresh, 0.2)
        if len(self.batches) < 1000:
            self.batches.append(tuple(x.shape))
        return -torch.cdist(z, self.centers, compute_mode="donot_use_mm_for_euclid_dist")


def build_prototypes(device):
    labels = torch.arange(40, device=device).remainder(5)
    return Prototypes().to(device), (torch.randn(40, 7, device=device), labels)
