"""Steps of dadaptation, higher and backpack: step sizes without a learning rate, inner loops, second orders."""

import torch
from torch import nn


def adapted(name, clip=False, **options):
    def build(device):
        import dadaptation

        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
        optimizer = getattr(dadaptation, name)(model.parameters(), **options)

        def step(x, y):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        return step, (torch.randn(16, 8, device=device), torch.randint(0, 4, (16,), device=device))

    return build


adapted_adam_training = adapted("DAdaptAdam", decouple=True, weight_decay=1e-2, growth_rate=1.02)
corrected_adam_training = adapted("DAdaptAdam", use_bias_correction=True, weight_decay=1e-3, clip=True)
adapted_sgd_training = adapted("DAdaptSGD", momentum=0.9, weight_decay=1e-4)
adapted_adagrad_training = adapted("DAdaptAdaGrad", momentum=0.9, weight_decay=1e-4)
adapted_lion_training = adapted("DAdaptLion", weight_decay=1e-2)
adapted_adan_training = adapted("DAdaptAdan", no_prox=True)


def sparse_adagrad_training(device):
    """An embedding with sparse gradients."""
    import dadaptation

    table = nn.Embedding(20, 6, sparse=True).to(device)
    optimizer = dadaptation.DAdaptAdaGrad(table.parameters())

    def step(words):
        optimizer.zero_grad()
        loss = table(words).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randint(0, 20, (8,), device=device),)


def meta_learned(inner, learned_rate=False, first_order=False, **options):
    """A turn of MAML: some inner steps, whose loss on other data reaches the initial weights."""

    def build(device):
        import higher

        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
        meta = torch.optim.Adam(model.parameters(), lr=1e-3)
        opt = getattr(torch.optim, inner)(model.parameters(), **options)
        rate = torch.tensor(options["lr"], device=device, requires_grad=True)

        def step(x, y, query_x, query_y):
            meta.zero_grad()
            total = 0.0
            for task in range(x.shape[0]):
                with higher.innerloop_ctx(
                    model,
                    opt,
                    copy_initial_weights=False,
                    override={"lr": [rate]} if learned_rate else None,
                    track_higher_grads=not first_order,
                ) as (fast, differentiable):
                    for _ in range(2):
                        differentiable.step(nn.functional.cross_entropy(fast(x[task]), y[task]))
                    loss = nn.functional.cross_entropy(fast(query_x[task]), query_y[task])
                    if first_order:
                        grads = torch.autograd.grad(loss, fast.parameters())
                        for weight, grad in zip(model.parameters(), grads, strict=True):
                            weight.grad = grad if weight.grad is None else weight.grad + grad
                    else:
                        loss.backward()
                    total = total + loss.detach()
            meta.step()
            return total

        return step, (
            torch.randn(2, 5, 4, device=device),
            torch.randint(0, 2, (2, 5), device=device),
            torch.randn(2, 6, 4, device=device),
            torch.randint(0, 2, (2, 6), device=device),
        )

    return build


meta_sgd_training = meta_learned("SGD", lr=0.1)
meta_momentum_training = meta_learned("SGD", lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3)
meta_adam_training = meta_learned("Adam", lr=1e-2, amsgrad=True)
meta_rate_training = meta_learned("SGD", lr=0.1, learned_rate=True)
first_order_training = meta_learned("RMSprop", lr=1e-2, first_order=True, centered=True, momentum=0.9)
meta_adagrad_training = meta_learned("Adagrad", lr=1e-2)


def extended(*names, convolution=False, recurrent=False, **options):
    """First and second orders beside the gradient."""

    def build(device):
        from backpack import backpack, extend, extensions

        if convolution:
            model = nn.Sequential(
                nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3)
            )
            x = torch.randn(4, 1, 6, 6, device=device)
        else:
            model = nn.Sequential(nn.Linear(6, 5), nn.Sigmoid(), nn.Linear(5, 3))
            x = torch.randn(4, 6, device=device)
        model = extend(model.to(device))
        lossfunc = extend(nn.CrossEntropyLoss())
        made = [getattr(extensions, name)(**options.get(name, {})) for name in names]

        def step(x, y):
            model.zero_grad()
            loss = lossfunc(model(x), y)
            with backpack(*made):
                loss.backward()
            return loss.detach(), [
                getattr(weight, extension.savefield) for weight in model.parameters() for extension in made
            ]

        return step, (x, torch.randint(0, 3, (4,), device=device))

    return build


first_order_quantities = extended("BatchGrad", "BatchL2Grad", "Variance", "SumGradSquared")
convolved_quantities = extended("BatchGrad", "Variance", "DiagGGNExact", "KFAC", convolution=True)
diagonal_curvature = extended("DiagGGNExact", "DiagGGNMC", "DiagHessian", "BatchDiagGGNExact")
kronecker_curvature = extended("KFAC", "KFLR", "KFRA")
square_root_curvature = extended("SqrtGGNExact", "SqrtGGNMC", SqrtGGNMC={"mc_samples": 2})
