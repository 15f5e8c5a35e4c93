"""Steps of schedulefree, prodigyopt and torchjd: optimizers without schedules, and several losses in one direction."""

import torch
from torch import nn


def data(where):
    return torch.randn(16, 8, device=where), torch.randint(0, 4, (16,), device=where)


def network(where):
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(where)


def optimised(package, name, **options):
    def build(device):
        import importlib

        model = network(device)
        optimizer = getattr(importlib.import_module(package), name)(model.parameters(), **options)

        def step(x, y):
            if hasattr(optimizer, "train"):
                optimizer.train()
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, data(device)

    return build


schedule_free_adam_training = optimised("schedulefree", "AdamWScheduleFree", lr=1e-3, warmup_steps=10)
schedule_free_descent_training = optimised("schedulefree", "SGDScheduleFree", lr=0.1)
rectified_training = optimised("schedulefree", "RAdamScheduleFree", lr=1e-3)
prodigy_training = optimised("prodigyopt", "Prodigy", lr=1.0)
safe_prodigy_training = optimised(
    "prodigyopt", "Prodigy", lr=1.0, safeguard_warmup=True, use_bias_correction=True, slice_p=11, weight_decay=0.01
)
plain_prodigy_training = optimised(
    "prodigyopt", "Prodigy", lr=1.0, decouple=False, weight_decay=0.01, d_coef=0.5, growth_rate=1.02
)


def evaluated_average(device):
    """A training step, then an evaluation with the averaged weights."""
    import schedulefree

    model = network(device)
    optimizer = schedulefree.AdamWScheduleFree(model.parameters(), lr=1e-3, foreach=False)

    def step(x, y):
        optimizer.train()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.eval()
        with torch.no_grad():
            return model(x).argmax(-1)

    return step, data(device)


def wrapped_training(device):
    import schedulefree

    model = network(device)
    base = torch.optim.SGD(model.parameters(), lr=1e-2)
    optimizer = schedulefree.ScheduleFreeWrapper(base, momentum=0.9, weight_decay_at_y=0.1)

    def step(x, y):
        optimizer.train()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, data(device)


def aggregated(name, *arguments, **options):
    """Combines the gradients of two tasks."""

    def build(device):
        from torchjd import aggregation
        from torchjd.autojac import jac_to_grad, mtl_backward

        shared = nn.Sequential(nn.Linear(8, 16), nn.ReLU()).to(device)
        heads = [nn.Linear(16, 4).to(device), nn.Linear(16, 1).to(device)]
        aggregator = getattr(aggregation, name)(*arguments, **options).to(device)
        parameters = [*shared.parameters(), *heads[0].parameters(), *heads[1].parameters()]
        optimizer = torch.optim.SGD(parameters, lr=0.1)

        def step(x, y):
            features = shared(x)
            losses = [nn.functional.cross_entropy(heads[0](features), y), heads[1](features).square().mean()]
            optimizer.zero_grad()
            mtl_backward(losses, features=features)
            jac_to_grad(shared.parameters(), aggregator)
            optimizer.step()
            return losses[0].detach()

        return step, data(device)

    return build


upgrad_training = aggregated("UPGrad")
multiple_descent_training = aggregated("MGDA")
projected_conflicts_training = aggregated("PCGrad")
impartial_training = aggregated("IMTLG")
aligned_training = aggregated("AlignedMTL")
dropped_signs_training = aggregated("GradDrop")
double_projection_training = aggregated("DualProj")
vaccinated_training = aggregated("GradVac")
trimmed_training = aggregated("TrimmedMean", trim_number=0)
conflict_averse_training = aggregated("CAGrad", c=0.5)
bargaining_training = aggregated("NashMTL", n_tasks=2)
