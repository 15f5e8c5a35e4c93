"""Steps of poutyne, prodigyplus, torch_ema and loralib: the parts of a training loop."""

import torch
import torch.nn.functional as F
from torch import nn


def _network(device, outputs=3):
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, outputs)).to(device)


def _labelled(device, count=12):
    return torch.randn(count, 8, device=device), torch.randint(0, 3, (count,), device=device)


def loop_batch(device):
    from poutyne import Model

    model = Model(_network(device), "adam", "cross_entropy", batch_metrics=["accuracy"], device=device)

    def step(x, y):
        return model.train_on_batch(x, y)

    return step, _labelled(device)


def loop_epoch(device):
    from poutyne import Model

    model = Model(
        _network(device), "sgd", "cross_entropy", batch_metrics=["accuracy", "top3"], epoch_metrics=["f1"],
        device=device,
    )  # fmt: skip

    def step(x, y):
        batches = list(zip(x.split(4), y.split(4), strict=True))
        return model.fit_generator(batches, epochs=1, verbose=False)

    return step, _labelled(device)


def loop_evaluation(device):
    from poutyne import Model

    model = Model(
        _network(device), None, "cross_entropy", batch_metrics=["accuracy"], epoch_metrics=["f1"], device=device
    )

    def step(x, y):
        return model.evaluate_generator([(x[:6], y[:6]), (x[6:], y[6:])], verbose=False)

    return step, _labelled(device)


def loop_prediction(device):
    from poutyne import Model

    model = Model(_network(device), None, None, device=device)

    def step(x):
        return model.predict_on_batch(x)

    return step, _labelled(device)[:1]


def loop_gradients(device):
    from poutyne import Model

    model = Model(_network(device, 1), "adam", "mse", batch_metrics=["l1"], device=device)

    def step(x, y):
        loss, _metrics, _output = model.evaluate_on_batch(x, y, return_pred=True)
        return loss, model.train_on_batch(x, y, return_dict_format=True)

    return step, (torch.randn(12, 8, device=device), torch.randn(12, 1, device=device))


def _prodigy(device, **options):
    from prodigyplus import ProdigyPlusScheduleFree

    model = _network(device)
    optimizer = ProdigyPlusScheduleFree(model.parameters(), **options)
    optimizer.train()

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, _labelled(device)


def prodigy_training(device):
    return _prodigy(device, lr=1.0, betas=(0.9, 0.99), weight_decay=0.01)


def prodigy_speed_training(device):
    return _prodigy(device, use_speed=True, use_orthograd=True, factored=False)


def prodigy_cautious_training(device):
    return _prodigy(device, use_schedulefree=False, use_cautious=True, use_stableadamw=False, prodigy_steps=100)


def prodigy_evaluation(device):
    """A training step and the evaluation with averaged weights after it."""
    from prodigyplus import ProdigyPlusScheduleFree

    model = _network(device)
    optimizer = ProdigyPlusScheduleFree(model.parameters(), split_groups_mean=True)

    def step(x, y):
        optimizer.train()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.eval()
        with torch.no_grad():
            return F.cross_entropy(model(x), y)

    return step, _labelled(device)


def averaged_training(device):
    from torch_ema import ExponentialMovingAverage

    model = _network(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    average = ExponentialMovingAverage(model.parameters(), decay=0.995)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        average.update()
        return loss.detach()

    return step, _labelled(device)


def averaged_validation(device):
    from torch_ema import ExponentialMovingAverage

    model = _network(device)
    average = ExponentialMovingAverage(model.parameters(), decay=0.995)

    def step(x, y):
        with average.average_parameters(), torch.no_grad():
            logits = model(x)
            return F.cross_entropy(logits, y), (logits.argmax(-1) == y).float().mean()

    return step, _labelled(device)


def averaged_by_hand(device):
    from torch_ema import ExponentialMovingAverage

    model = _network(device)
    average = ExponentialMovingAverage(model.parameters(), decay=0.9, use_num_updates=False)
    average.to(device=device)

    def step(x):
        average.update(model.parameters())
        average.store(model.parameters())
        average.copy_to(model.parameters())
        with torch.no_grad():
            outputs = model(x)
        average.restore(model.parameters())
        return outputs

    return step, _labelled(device)[:1]


def _adapted(device, model, loss_of, arguments):
    import loralib as lora

    model.to(device).train()
    lora.mark_only_lora_as_trainable(model, bias="lora_only")
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    def step(*inputs):
        optimizer.zero_grad()
        loss = loss_of(*inputs)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, arguments


def adapted_training(device):
    import loralib as lora

    model = nn.Sequential(lora.Linear(8, 16, r=4, lora_alpha=8, lora_dropout=0.1), nn.ReLU(), lora.Linear(16, 3, r=2))
    return _adapted(device, model, lambda x, y: F.cross_entropy(model(x), y), _labelled(device))


def adapted_projection_training(device):
    import loralib as lora

    model = lora.MergedLinear(16, 48, r=4, enable_lora=[True, False, True])

    def loss_of(x):
        q, k, v = model(x).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v).square().mean()

    return _adapted(device, model, loss_of, (torch.randn(2, 6, 16, device=device),))


def adapted_image_training(device):
    import loralib as lora

    model = nn.Sequential(lora.Conv2d(3, 8, 3, r=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    x, y = torch.randn(2, 3, 8, 8, device=device), torch.tensor([1, 5], device=device)
    return _adapted(device, model, lambda a, b: F.cross_entropy(model(a), b), (x, y))


def adapted_merging(device):
    """The adapters are merged into the weights for an evaluation and taken out again."""
    import loralib as lora

    model = nn.Sequential(lora.Embedding(20, 8, r=2), lora.Linear(8, 8, r=2)).to(device)

    def step(tokens):
        model.eval()
        with torch.no_grad():
            merged = model(tokens)
        model.train()
        return merged, model(tokens)

    return step, (torch.randint(0, 20, (2, 6), device=device),)
