import torch
from optimkit import optimizers, schedules, trainer
from torch import nn


def stepping(device, make):
    """A step that takes the gradient and gives the weights."""
    weight = nn.Parameter(torch.eye(4, device=device) + 0.1)
    weight.grad = torch.zeros_like(weight)
    update = make([weight])

    def step(grad):
        weight.grad.copy_(grad)
        update()
        return weight.detach().clone()

    return step, (torch.randn(4, 4, device=device),)


def named(device, name, **options):
    return stepping(device, lambda params: optimizers.OPTIMIZERS[name](params, **options).step)


def build_bias_correction(device):
    return named(device, "correctedmomentum")


def build_bias_correction_tensor(device):
    return named(device, "correctedmomentumtensor")


def build_norm_limit(device):
    return named(device, "normlimited")


def build_norm_limit_clamped(device):
    return named(device, "normclamped", limit=0.5)


def build_layerwise_trust(device):
    return named(device, "layerwise")


def build_layerwise_trust_where(device):
    return named(device, "layerwisetensor")


def build_heavy_ball(device):
    return named(device, "heavyball")


def build_heavy_ball_kept(device):
    return named(device, "heavyballkept")


def build_whitened(device):
    return named(device, "whitened")


def build_langevin(device):
    return named(device, "langevin")


def build_langevin_device(device):
    return named(device, "langevindevice")


def build_skipped_updates(device):
    return named(device, "stochasticdepth")


def build_lookahead(device):
    return stepping(device, lambda params: optimizers.Lookahead(torch.optim.SGD(params, lr=0.1)).step)


def scheduled(device, make):
    def both(params):
        optimizer = torch.optim.SGD(params, lr=0.1)
        schedule = make(optimizer)

        def update():
            schedule.step()
            optimizer.step()

        return update

    return stepping(device, both)


def build_lambda_schedule(device):
    return scheduled(device, lambda optimizer: schedules.LambdaSchedule(optimizer, schedules.cosine(20)))


def build_table_schedule(device):
    return scheduled(device, schedules.TableSchedule)


def square(device):
    return torch.randn(4, 4, device=device)


def build_cyclic_momentum(device):
    return schedules.CyclicMomentum([0.5, 0.9, 0.7]).apply, (square(device), square(device))


def build_decay_ramp(device):
    return schedules.WeightDecayRamp().decayed, (square(device),)


def build_plateau(device):
    return schedules.Plateau(torch.ones(1, device=device)).step, (torch.tensor([0.7], device=device),)


def build_plateau_where(device):
    best, rate = torch.ones(4, device=device), torch.ones(4, device=device)
    return schedules.PlateauTensor(best, rate).step, (torch.rand(4, device=device),)


def build_rate_tensor(device):
    rate = torch.full((), 0.5, device=device)
    return schedules.TensorSchedule(rate).step, (square(device), square(device))


def training(device, make):
    model = nn.Linear(4, 2).to(device)
    return make(model).train_step, (torch.randn(8, 4, device=device), torch.randn(8, 2, device=device))


def descent(model):
    return trainer.make_optimizer(model, "SGD", lr=0.1)


def build_plain_adamw(device):
    return training(device, trainer.adam_trainer)


def build_plain_rmsprop(device):
    return training(device, trainer.RootPropTrainer)


def build_capturable_adamw(device):
    return training(device, trainer.CapturableTrainer)


def build_strict_clip(device):
    return training(device, lambda model: trainer.StrictTrainer(model, descent(model)))


def build_plain_clip(device):
    return training(device, lambda model: trainer.ClippingTrainer(model, descent(model)))


def build_scaled_step(device):
    return training(device, lambda model: trainer.ScaledTrainer(model, descent(model), device.type))


def build_loss_history(device):
    return training(device, lambda model: trainer.LoggingTrainer(model, descent(model)))


def build_loss_buffer(device):
    return training(device, lambda model: trainer.BufferedTrainer(model, descent(model)))


def build_accumulation(device):
    return training(device, lambda model: trainer.AccumulatingTrainer(model, descent(model)))


def build_nan_hook(device):
    return training(device, lambda model: trainer.Trainer(trainer.watch(model), descent(model)))


def averaged(device, kind):
    return kind(nn.Linear(4, 2).to(device)).update, (torch.rand(8, device=device),)


def build_average_warmup(device):
    return averaged(device, trainer.Average)


def build_average_rebuilt(device):
    return averaged(device, trainer.FreshAverage)


def build_average_foreach(device):
    return averaged(device, trainer.ForeachAverage)


def build_first_norm(device):
    return trainer.GradientScale().step, (square(device),)


def build_host_anchor(device):
    return trainer.Penalty((4,)).to(device), (square(device),)
