"""Metrics of pytorch-ignite as its evaluators drive them, a training engine, and averages of weights."""

import torch
import torch.nn.functional as F
from torch import nn


def scores(device, size=32, classes=5):
    return torch.randn(size, classes, device=device).softmax(-1), torch.randint(0, classes, (size,), device=device)


def measured(*names, **options):
    """One batch into each metric, and its value so far."""

    def build(device):
        from ignite import metrics

        kept = [getattr(metrics, name)(device=device, **options) for name in names]

        @torch.no_grad()
        def step(predicted, truth):
            for metric in kept:
                metric.update((predicted, truth))
            return [metric.compute() for metric in kept]

        return step, scores(device)

    return build


hits = measured("Accuracy", "TopKCategoricalAccuracy")
ratios = measured("Precision", "Recall")
confused = measured("ConfusionMatrix", num_classes=5)
entropies = measured("Entropy")
reported = measured("ClassificationReport")


def regression(device):
    from ignite import metrics
    from ignite.metrics.regression import MeanAbsoluteRelativeError, MedianAbsoluteError, PearsonCorrelation, R2Score

    kept = [
        metrics.MeanSquaredError(device=device),
        metrics.MeanAbsoluteError(device=device),
        metrics.Loss(F.mse_loss, device=device),
        R2Score(device=device),
        MedianAbsoluteError(device=device),
        MeanAbsoluteRelativeError(device=device),
        PearsonCorrelation(device=device),
    ]

    @torch.no_grad()
    def step(predicted, truth):
        for metric in kept:
            metric.reset()
            metric.update((predicted, truth))
        return [metric.compute() for metric in kept]

    return step, (torch.rand(32, device=device) + 1, torch.rand(32, device=device) + 1)


def pictures(device):
    from ignite.metrics import PSNR, SSIM

    ratio, similarity = PSNR(data_range=1.0, device=device), SSIM(data_range=1.0, device=device)

    @torch.no_grad()
    def step(one, other):
        ratio.update((one, other))
        similarity.update((one, other))
        return ratio.compute(), similarity.compute()

    return step, (torch.rand(2, 3, 32, 32, device=device), torch.rand(2, 3, 32, 32, device=device))


def overlaps(device):
    from ignite.metrics import ConfusionMatrix, DiceCoefficient, mIoU

    matrix = ConfusionMatrix(num_classes=3, device=device)
    union, dice = mIoU(matrix), DiceCoefficient(matrix)

    @torch.no_grad()
    def step(predicted, truth):
        matrix.reset()
        matrix.update((predicted, truth))
        return union.compute(), dice.compute()

    return step, (torch.randn(2, 3, 16, 16, device=device), torch.randint(0, 3, (2, 16, 16), device=device))


def several_labels(device):
    from ignite.metrics import Accuracy, Precision, Recall

    kept = [
        Precision(average=True, is_multilabel=True, device=device),
        Recall(average="samples", is_multilabel=True, device=device),
        Accuracy(is_multilabel=True, device=device),
    ]

    @torch.no_grad()
    def step(predicted, truth):
        for metric in kept:
            metric.update((predicted, truth))
        return [metric.compute() for metric in kept]

    return step, ((torch.rand(16, 4, device=device) > 0.5).long(), (torch.rand(16, 4, device=device) > 0.5).long())


def driven_training(device):
    """An engine of ignite runs one batch: loss on a running mean, stop where it is not a number."""
    from ignite.engine import Events, create_supervised_trainer
    from ignite.handlers import TerminateOnNan
    from ignite.metrics import RunningAverage

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5)).to(device)
    trainer = create_supervised_trainer(
        model,
        torch.optim.SGD(model.parameters(), lr=0.01),
        F.cross_entropy,
        device=device,
        output_transform=lambda x, y, p, loss: loss,
    )
    RunningAverage(output_transform=lambda loss: loss, device=device).attach(trainer, "loss")
    trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())

    def step(x, y):
        return trainer.run([(x, y)], max_epochs=1).metrics["loss"]

    return step, (torch.randn(16, 8, device=device), torch.randint(0, 5, (16,), device=device))


def averaged_weights(device):
    """Training beside a moving average of the weights."""
    from ema_pytorch import EMA

    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 5)).to(device)
    average = EMA(model, beta=0.99, update_after_step=1, update_every=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update()
        return loss.detach(), average(x).detach()

    return step, (torch.randn(16, 8, device=device), torch.randint(0, 5, (16,), device=device))
