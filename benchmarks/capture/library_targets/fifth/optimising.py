"""Steps of torch_optimizer: a training step with each of several optimizers."""

import torch
from torch import nn


def descended(name, closure=False, clipped=False, **options):
    def build(device):
        import torch_optimizer

        model = nn.Sequential(nn.Conv1d(2, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32, 4)).to(device)
        if name in ("Adafactor", "Adahessian"):  # these fail with weights of three dimensions
            model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4)).to(device)
        optimizer = getattr(torch_optimizer, name)(model.parameters(), **options)

        def step(x, y):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward(create_graph=name == "Adahessian")
            if clipped:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        return step, (torch.randn(16, 2, 8, device=device), torch.randint(0, 4, (16,), device=device))

    return build


lamb_training = descended("Lamb", weight_decay=0.01, debias=True)
lars_training = descended("LARS", lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
adabound_training = descended("AdaBound", amsbound=True)
adafactor_training = descended("Adafactor", beta1=0.9, weight_decay=0.01)
adafactor_warmup_training = descended("Adafactor", warmup_init=True, scale_parameter=False)
adamp_training = descended("AdamP", weight_decay=1e-2, nesterov=True)
sgdp_training = descended("SGDP", lr=0.01, momentum=0.9, weight_decay=1e-2)
rectified_adam_training = descended("RAdam", clipped=True)
shampoo_training = descended("Shampoo", momentum=0.9, epsilon=1e-3)
novograd_training = descended("NovoGrad", grad_averaging=True, amsgrad=True, betas=(0.95, 0.9))
hessian_training = descended("Adahessian", lr=0.05, seed=0)
switching_training = descended("SWATS", amsgrad=True)
apollo_training = descended("Apollo", warmup=2)
madgrad_training = descended("MADGRAD", weight_decay=1e-3)
accelerated_gradient_training = descended("A2GradExp", lr=1e-2)
momentum_mix_training = descended("QHAdam", nus=(0.7, 1.0), weight_decay=0.01, decouple_weight_decay=True)


def lookahead_training(device):
    import torch_optimizer

    model = nn.Linear(8, 4).to(device)
    optimizer = torch_optimizer.Lookahead(torch_optimizer.Yogi(model.parameters(), lr=1e-2), k=2, alpha=0.5)

    def step(x, y):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(16, 8, device=device), torch.randint(0, 4, (16,), device=device))
