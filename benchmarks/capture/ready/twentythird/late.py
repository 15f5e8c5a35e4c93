import torch
import torch.nn as nn
import torch.nn.functional as F

from graphsafe import Step


def parts(device):
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    args = torch.randn(8, 12, device=device), torch.randint(0, 5, (8,), device=device)
    return model, opt, step, args


def fill(args):
    args[0].copy_(torch.randn(8, 12))
    args[1].copy_(torch.randint(0, 5, (8,)))


def build_step_decay(device):
    """Faulty: the loop computes a float rate from the iteration, ten times lower every 1,000 iterations, and the graph keeps the first."""
    model, opt, step, args = parts(device)

    def refresh(args, kwargs, k):
        for group in opt.param_groups:
            group["lr"] = 0.05 * 0.1 ** (k // 1000)
        fill(args)

    return Step(step, args, refresh=refresh)


def build_step_decay_counter(device):
    """Faulty: as above, but the loop keeps the iteration itself."""
    model, opt, step, args = parts(device)
    loop = {"iteration": 0}

    def refresh(args, kwargs, k):
        loop["iteration"] += 1
        for group in opt.param_groups:
            group["lr"] = 0.05 * 0.1 ** (loop["iteration"] // 1000)
        fill(args)

    return Step(step, args, refresh=refresh)


def build_reload_late(device):
    """Faulty: at iteration 2,000 the loop loads the second stage's weights with assign=True, and the graph reads the first stage's."""
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5)).to(device).requires_grad_(False)
    stage2 = {name: torch.randn_like(w) for name, w in model.state_dict().items()}

    def refresh(args, kwargs, k):
        if k == 2000:
            model.load_state_dict(stage2, assign=True)
        args[0].copy_(torch.randn(8, 12))

    return Step(model, (torch.randn(8, 12, device=device),), refresh=refresh)


def build_reload_300(device):
    """Faulty: at iteration 300 the loop loads the second stage's weights with assign=True, and the graph reads the first stage's."""
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5)).to(device).requires_grad_(False)
    stage2 = {name: torch.randn_like(w) for name, w in model.state_dict().items()}

    def refresh(args, kwargs, k):
        if k == 300:
            model.load_state_dict(stage2, assign=True)
        args[0].copy_(torch.randn(8, 12))

    return Step(model, (torch.randn(8, 12, device=device),), refresh=refresh)
