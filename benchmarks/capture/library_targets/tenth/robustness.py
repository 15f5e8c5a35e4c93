"""Steps of foolbox, cleverhans and ttach: attacks on a classifier and averages over changed images."""

import torch
import torch.nn.functional as F
from torch import nn


def _classifier(device, classes=5):
    return (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, classes)
        )
        .to(device)
        .eval()
    )


def _images(device, count=4):
    return torch.rand(count, 3, 16, 16, device=device), torch.randint(0, 5, (count,), device=device)


def _foolbox(device, attack, epsilons):
    from foolbox import PyTorchModel

    model = PyTorchModel(_classifier(device), bounds=(0, 1), device=device)

    def step(images, labels):
        _raw, clipped, success = attack(model, images, labels, epsilons=epsilons)
        return clipped, success

    return step, _images(device)


def foolbox_projected(device):
    from foolbox.attacks import LinfPGD

    return _foolbox(device, LinfPGD(steps=5), [0.0, 0.01, 0.03, 0.1])


def foolbox_deep(device):
    from foolbox.attacks import L2DeepFoolAttack

    return _foolbox(device, L2DeepFoolAttack(steps=5, candidates=3), [0.5, 1.0])


def foolbox_carlini(device):
    from foolbox.attacks import L2CarliniWagnerAttack

    return _foolbox(device, L2CarliniWagnerAttack(binary_search_steps=2, steps=4), 1.0)


def foolbox_decoupled(device):
    from foolbox.attacks import DDNAttack

    return _foolbox(device, DDNAttack(steps=5), None)


def foolbox_minimum_norm(device):
    from foolbox.attacks import LInfFMNAttack

    return _foolbox(device, LInfFMNAttack(steps=5), [0.1])


def foolbox_accuracy(device):
    from foolbox import PyTorchModel, accuracy

    preprocessing = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "axis": -3}
    model = PyTorchModel(_classifier(device), bounds=(0, 1), device=device, preprocessing=preprocessing)

    def step(images, labels):
        return accuracy(model, images, labels)

    return step, _images(device)


def cleverhans_fast_gradient(device):
    import numpy as np
    from cleverhans.torch.attacks.fast_gradient_method import fast_gradient_method

    model = _classifier(device)

    def step(x):
        return fast_gradient_method(model, x, 0.1, np.inf)

    return step, _images(device)[:1]


def cleverhans_adversarial_training(device):
    """A training step on images that were attacked first, as in the tutorial for CIFAR-10."""
    import numpy as np
    from cleverhans.torch.attacks.projected_gradient_descent import projected_gradient_descent

    model = _classifier(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x, y):
        x = projected_gradient_descent(model, x, 0.3, 0.05, 5, np.inf)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, _images(device)


def cleverhans_projected(device):
    from cleverhans.torch.attacks.projected_gradient_descent import projected_gradient_descent

    model = _classifier(device)

    def step(x, y):
        return projected_gradient_descent(model, x, 1.0, 0.2, 5, 2, clip_min=0.0, clip_max=1.0, y=y)

    return step, _images(device)


def cleverhans_carlini(device):
    from cleverhans.torch.attacks.carlini_wagner_l2 import carlini_wagner_l2

    model = _classifier(device)

    def step(x):
        return carlini_wagner_l2(model, x, 5, binary_search_steps=2, max_iterations=4)

    return step, _images(device)[:1]


def cleverhans_stochastic(device):
    import numpy as np
    from cleverhans.torch.attacks.spsa import spsa

    model = _classifier(device)

    def step(x, y):
        return spsa(model, x, 0.1, 3, norm=np.inf, clip_min=0.0, clip_max=1.0, y=y, spsa_samples=8)

    return step, _images(device, 2)


def cleverhans_sparse(device):
    from cleverhans.torch.attacks.sparse_l1_descent import sparse_l1_descent

    model = _classifier(device)

    def step(x, y):
        return sparse_l1_descent(model, x, nb_iter=4, y=y, clip_min=0.0, clip_max=1.0, grad_sparsity=95)

    return step, _images(device)


def average_flips(device):
    import ttach as tta

    model = tta.ClassificationTTAWrapper(_classifier(device), tta.aliases.d4_transform(), merge_mode="mean")

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, _images(device)[:1]


def average_crops(device):
    import ttach as tta

    model = tta.ClassificationTTAWrapper(_classifier(device), tta.aliases.five_crop_transform(12, 12))

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, _images(device)[:1]


def average_masks(device):
    import ttach as tta

    network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1), nn.Sigmoid()).to(device)
    transforms = tta.Compose([tta.HorizontalFlip(), tta.Rotate90(angles=[0, 180]), tta.Scale(scales=[1, 2])])
    model = tta.SegmentationTTAWrapper(network.eval(), transforms, merge_mode="gmean")

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, _images(device)[:1]


def average_by_hand(device):
    import ttach as tta

    model = _classifier(device)
    transforms = tta.Compose([tta.VerticalFlip(), tta.Add(values=[-0.1, 0, 0.1]), tta.Multiply(factors=[0.9, 1, 1.1])])

    def step(x):
        merger = tta.base.Merger(type="max", n=len(transforms))
        with torch.no_grad():
            for transformer in transforms:
                merger.append(transformer.deaugment_label(model(transformer.augment_image(x))))
        return merger.result

    return step, _images(device)[:1]


def average_points(device):
    import ttach as tta

    network = nn.Sequential(_classifier(device, classes=8), nn.Sigmoid())
    model = tta.KeypointsTTAWrapper(network, tta.aliases.flip_transform(), scaled=True)

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, _images(device)[:1]
