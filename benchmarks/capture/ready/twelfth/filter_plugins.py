"""An image pipeline runs every filter class that is known. A plug-in that is loaded later adds one."""

import torch

import graphsafe


class Filter:
    order = 0

    def apply(self, image):
        raise NotImplementedError


class Blur(Filter):
    order = 1

    def apply(self, image):
        return torch.nn.functional.avg_pool2d(image, 3, 1, 1)


class Stretch(Filter):
    order = 2

    def apply(self, image):
        low, high = image.amin((-2, -1), keepdim=True), image.amax((-2, -1), keepdim=True)
        return (image - low) / (high - low + 1e-3)


PLUGIN = """
class Vignette(Filter):
    order = 3
    def apply(self, image):
        ramp = torch.linspace(-1, 1, image.shape[-1], device=image.device)
        return image * (1 - 0.3 * ramp[None] ** 2 - 0.3 * ramp[:, None] ** 2)
"""


def build(device):
    space = {"Filter": Filter, "torch": torch, "__name__": __name__}

    def run(image):
        for kind in sorted(Filter.__subclasses__(), key=lambda c: c.order):
            image = kind().apply(image)
        return image

    def refresh(args, kwargs, k):
        args[0].copy_(torch.rand(2, 12, 12))

    return graphsafe.Step(
        run,
        (torch.rand(2, 12, 12, device=device),),
        refresh=refresh,
        events={"plug-in loaded": lambda: exec(PLUGIN, space)},
    )
