"""Training steps of a small network under the optimizers of pytorch_optimizer."""

import torch
import torch.nn.functional as F
from torch import nn


def network(device, width=16):
    return nn.Sequential(nn.Linear(8, width), nn.GELU(), nn.Linear(width, 4)).to(device)


def data(device, size=16):
    return torch.randn(size, 8, device=device), torch.randint(0, 4, (size,), device=device)


def trained(kind, **options):
    def build(device):
        import pytorch_optimizer

        model = network(device)
        optimizer = getattr(pytorch_optimizer, kind)(model.parameters(), **options)
        if hasattr(optimizer, "train"):
            optimizer.train()

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, data(device)

    return build


lion = trained("Lion", lr=1e-4)
belief = trained("AdaBelief", lr=1e-3)
ranger = trained("Ranger21", num_iterations=100, lr=1e-3)
parameter_free = trained("Prodigy", lr=1.0)
adapted_rate = trained("DAdaptAdam", lr=1.0)
without_schedule = trained("ScheduleFreeAdamW", lr=1e-3)
preconditioned = trained("SOAP", lr=1e-3)
factored = trained("AdaFactor", lr=1e-3)
layerwise = trained("Lamb", lr=1e-3)


def orthogonalized(device):
    """Muon for matrices and AdamW for the rest."""
    from pytorch_optimizer import Muon

    model = network(device)
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    optimizer = Muon([{"params": matrices, "use_muon": True}, {"params": others, "use_muon": False}], lr=1e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, data(device)


def sharpness_aware(device):
    """Two passes a step: climb, look again, then descend."""
    from pytorch_optimizer import SAM, AdamP

    model = network(device)
    optimizer = SAM(model.parameters(), AdamP, rho=0.05, lr=1e-3)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.first_step(zero_grad=True)
        F.cross_entropy(model(x), y).backward()
        optimizer.second_step(zero_grad=True)
        return loss.detach()

    return step, data(device)


def looking_ahead(device):
    from pytorch_optimizer import AdaBound, Lookahead

    model = network(device)
    optimizer = Lookahead(AdaBound(model.parameters(), lr=1e-3), k=2)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, data(device)
