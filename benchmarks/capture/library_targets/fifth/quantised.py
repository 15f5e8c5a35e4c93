"""Steps of optimum.quanto: quantised layers in training and inference, calibration, tensors."""

import torch
from torch import nn


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(128, 64),
        nn.LayerNorm(64),
        nn.Linear(64, 4),
    )


def quantised_training(weights, activations=None):
    """Training with quantised weights."""

    def build(device):
        from optimum import quanto

        model = network()
        quanto.quantize(
            model, weights=getattr(quanto, weights), activations=getattr(quanto, activations) if activations else None
        )
        model = model.to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

        def step(x, y):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (torch.rand(4, 3, 8, 8, device=device), torch.randint(0, 4, (4,), device=device))

    return build


eight_bits_training = quantised_training("qint8")
four_bits_training = quantised_training("qint4")
activations_training = quantised_training("qint8", "qint8")


def frozen_network(weights, activations=None):
    """Frozen, calibrated weights."""

    def build(device):
        from optimum import quanto

        model = network().to(device)
        quanto.quantize(
            model, weights=getattr(quanto, weights), activations=getattr(quanto, activations) if activations else None
        )
        x = torch.rand(4, 3, 8, 8, device=device)
        if activations:
            with torch.no_grad(), quanto.Calibration():
                model(x)
        quanto.freeze(model)

        @torch.no_grad()
        def step(x):
            return model(x)

        return step, (x,)

    return build


frozen_eight_bits = frozen_network("qint8")
frozen_four_bits = frozen_network("qint4")
frozen_activations = frozen_network("qint8", "qint8")
frozen_floats = frozen_network("qfloat8")


def calibrated_network(device):
    from optimum import quanto

    model = network().to(device)
    quanto.quantize(model, weights=quanto.qint8, activations=quanto.qint8)

    @torch.no_grad()
    def step(x):
        with quanto.Calibration(momentum=0.9):
            return model(x)

    return step, (torch.rand(4, 3, 8, 8, device=device),)


def quantised_tensors(device):
    from optimum import quanto
    from optimum.quanto import AbsmaxOptimizer, HqqOptimizer, MaxOptimizer

    def step(w, x):
        scale = AbsmaxOptimizer()(w, quanto.qint8, axis=0)
        eight = quanto.quantize_weight(w, quanto.qint8, axis=0, scale=scale, optimized=False)
        scale, shift = MaxOptimizer()(w, quanto.qint4, axis=0, group_size=32)
        four = quanto.quantize_weight(w, quanto.qint4, axis=0, scale=scale, shift=shift, group_size=32, optimized=False)
        half = HqqOptimizer(iters=3)(w, quanto.qint4, axis=0, group_size=32)
        acts = quanto.quantize_activation(x, quanto.qint8, quanto.absmax_scale(x))
        return eight.dequantize(), four.dequantize(), half, acts.dequantize()

    return step, (torch.randn(32, 64, device=device), torch.randn(4, 64, device=device))
