"""Training steps with optimizers and schedules: lion_pytorch, adan_pytorch, adam_atan2_pytorch, grokfast_pytorch,
madgrad, pytorch_ranger, pytorch_warmup and adabelief_pytorch."""

import torch
from torch import nn


def _network(device, inputs=16, outputs=4):
    return nn.Sequential(nn.Linear(inputs, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, outputs)).to(
        device
    )


def _labelled(device, count=32):
    return torch.randn(count, 16, device=device), torch.randint(0, 4, (count,), device=device)


def _training(model, optimizer, device, clip=None, schedule=None):
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if schedule is not None:
            schedule()
        return loss.detach()

    data = _labelled(device)
    step(*data)
    return step, data


def lion_training(device):
    from lion_pytorch import Lion

    model = _network(device)
    return _training(model, Lion(model.parameters(), lr=1e-4, weight_decay=1e-2), device, clip=1.0)


def lion_decoupled(device):
    from lion_pytorch import Lion

    model = _network(device)
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return _training(model, Lion(groups, lr=1e-4, decoupled_weight_decay=True), device)


def adan_training(device):
    from adan_pytorch import Adan

    model = _network(device)
    return _training(model, Adan(model.parameters(), lr=1e-3, betas=(0.02, 0.08, 0.01), weight_decay=0.02), device)


def adan_restart(device):
    """Adan with a restart condition on the state of each parameter."""
    from adan_pytorch import Adan

    model = _network(device)
    optimizer = Adan(model.parameters(), lr=1e-3, restart_cond=lambda state: state["step"] % 10 == 0)
    return _training(model, optimizer, device)


def atan2_training(device):
    from adam_atan2_pytorch import AdamAtan2

    model = _network(device)
    return _training(model, AdamAtan2(model.parameters(), lr=1e-4, weight_decay=0.01), device)


def atan2_regenerative(device):
    from adam_atan2_pytorch import AdamAtan2

    model = _network(device)
    return _training(model, AdamAtan2(model.parameters(), lr=1e-4, regen_reg_rate=0.05, cautious_factor=0.1), device)


def atan2_muon(device):
    from adam_atan2_pytorch import MuonAdamAtan2

    model = _network(device)
    muon = [p for p in model.parameters() if p.ndim == 2]
    return _training(model, MuonAdamAtan2(muon, model.parameters(), lr=1e-4, weight_decay=0.01), device)


def grokfast_training(device):
    from grokfast_pytorch import GrokFastAdamW

    model = _network(device)
    return _training(model, GrokFastAdamW(model.parameters(), lr=1e-4, weight_decay=0.01), device)


def grokfast_late(device):
    """The amplification of slow gradients starts after some steps."""
    from grokfast_pytorch import GrokFastAdamW

    model = _network(device)
    return _training(model, GrokFastAdamW(model.parameters(), lr=1e-4, grokfast_after_step=2), device)


def grokfast_entropy(device):
    from grokfast_pytorch import GrokFastAdamW

    model = _network(device)
    optimizer = GrokFastAdamW(
        model.parameters(), lr=1e-4, add_spectral_entropy_reg=True, spectral_entropy_reg_weight=0.1
    )
    return _training(model, optimizer, device)


def madgrad_training(device):
    from madgrad import MADGRAD

    model = _network(device)
    return _training(model, MADGRAD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-5), device)


def madgrad_mirror(device):
    from madgrad import MirrorMADGRAD

    model = _network(device)
    return _training(model, MirrorMADGRAD(model.parameters(), lr=1e-3, weight_decay=1e-2, decouple_decay=True), device)


def ranger_training(device):
    from pytorch_ranger import Ranger

    model = _network(device)
    return _training(model, Ranger(model.parameters(), lr=1e-3, k=2, weight_decay=1e-2), device)


def ranger_variant(device):
    from pytorch_ranger import RangerVA

    model = _network(device)
    return _training(model, RangerVA(model.parameters(), lr=1e-3, k=2), device)


def warmup_linear(device):
    import pytorch_warmup as warmup

    model = _network(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
    linear = warmup.LinearWarmup(optimizer, warmup_period=10)

    def schedule():
        with linear.dampening():
            cosine.step()

    return _training(model, optimizer, device, schedule=schedule)


def warmup_radam(device):
    import pytorch_warmup as warmup

    model = _network(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.99))
    multi = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[20, 40])
    radam = warmup.RAdamWarmup(optimizer)

    def schedule():
        with radam.dampening():
            multi.step()

    return _training(model, optimizer, device, clip=1.0, schedule=schedule)


def adabelief_training(device):
    from adabelief_pytorch import AdaBelief

    model = _network(device)
    optimizer = AdaBelief(
        model.parameters(), lr=1e-3, eps=1e-16, weight_decouple=True, rectify=True, print_change_log=False
    )
    return _training(model, optimizer, device)


def adabelief_amsgrad(device):
    from adabelief_pytorch import AdaBelief

    model = _network(device)
    optimizer = AdaBelief(
        model.parameters(),
        lr=1e-3,
        eps=1e-8,
        weight_decouple=False,
        rectify=False,
        amsgrad=True,
        print_change_log=False,
    )
    return _training(model, optimizer, device)
