"""Steps of captum and torchattacks: why a classifier answers as it does, and what misleads it."""

import torch
from torch import nn


def classifier(where):
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 10)
    )
    return layers.to(where).eval()


def pictures(device, batch=4):
    return torch.rand(batch, 3, 16, 16, device=device), torch.randint(0, 10, (batch,), device=device)


def attributed(name, **options):
    def build(device):
        from captum import attr

        method = getattr(attr, name)(classifier(device))

        def step(x, y):
            return method.attribute(x, target=y, **options)

        return step, pictures(device)

    return build


path_gradients = attributed("IntegratedGradients", n_steps=8)
salient_pixels = attributed("Saliency")
rescaled_differences = attributed("DeepLift")
occluded = attributed("Occlusion", sliding_window_shapes=(3, 8, 8), strides=(3, 8, 8))
guided = attributed("GuidedBackprop")


def grouped_ablation(device):
    """Computes how much the score falls without each quarter of the image."""
    from captum.attr import FeatureAblation

    method = FeatureAblation(classifier(device))
    quarters = torch.arange(4, device=device).reshape(1, 1, 2, 2).repeat_interleave(8, 2).repeat_interleave(8, 3)

    def step(x, y):
        return method.attribute(x, target=y, feature_mask=quarters, perturbations_per_eval=2)

    return step, pictures(device)


def shapley_samples(device):
    from captum.attr import ShapleyValueSampling

    method = ShapleyValueSampling(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)).to(device))

    def step(x, y):
        return method.attribute(x, target=y, n_samples=2)

    return step, (torch.randn(4, 5, device=device), torch.randint(0, 3, (4,), device=device))


def gradient_shapley(device):
    from captum.attr import GradientShap

    method, rest = GradientShap(classifier(device)), torch.zeros(2, 3, 16, 16, device=device)

    def step(x, y):
        return method.attribute(x, baselines=rest, target=y, n_samples=3, stdevs=0.1)

    return step, pictures(device)


def class_activation(device):
    from captum.attr import LayerAttribution, LayerGradCam

    model = classifier(device)
    method = LayerGradCam(model, model[0])

    def step(x, y):
        return LayerAttribution.interpolate(method.attribute(x, target=y), (16, 16))

    return step, pictures(device)


def smoothed_gradients(device):
    from captum.attr import NoiseTunnel, Saliency

    method = NoiseTunnel(Saliency(classifier(device)))

    def step(x, y):
        return method.attribute(x, target=y, nt_type="smoothgrad", nt_samples=3, stdevs=0.1)

    return step, pictures(device)


def infidelity_of_gradients(device):
    from captum.attr import Saliency
    from captum.metrics import infidelity, sensitivity_max

    model = classifier(device)
    method = Saliency(model)

    def perturbed(inputs):
        noise = torch.randn_like(inputs) * 0.01
        return noise, inputs - noise

    def step(x, y):
        gradients = method.attribute(x, target=y)
        return infidelity(model, perturbed, x, gradients, target=y), sensitivity_max(method.attribute, x, target=y)

    return step, pictures(device)


def attacked(name, **options):
    def build(device):
        import torchattacks

        attack = getattr(torchattacks, name)(classifier(device), **options)

        def step(x, y):
            return attack(x, y)

        return step, pictures(device)

    return build


sign_attack = attacked("FGSM", eps=8 / 255)
projected_attack = attacked("PGD", steps=3)
squared_attack = attacked("PGDL2", steps=3)
optimised_attack = attacked("CW", steps=5)
nearest_boundary = attacked("DeepFool", steps=4)
momentum_attack = attacked("MIFGSM", steps=3)
diverse_inputs = attacked("DIFGSM", steps=3, resize_rate=0.8)
parameter_free_attack = attacked("APGD", steps=4)
random_squares = attacked("Square", n_queries=8)
few_pixels = attacked("OnePixel", pixels=1, steps=2, popsize=4, inf_batch=8)
