"""An augmentation chain with per-transform random sources."""
import torch
import torch.nn.functional as F


class Source:
    def __init__(self, device, seed):
        self.gen = torch.Generator(device)
        self.gen.manual_seed(seed)

    def uniform(self, *shape):
        return torch.rand(*shape, device=self.gen.device, generator=self.gen)


class Brightness:
    def __init__(self, source, spread):
        self.source, self.spread = source, spread

    def __call__(self, img):
        return img * (1 + self.spread * (self.source.uniform(img.shape[0], 1, 1, 1) - 0.5))


class Cutout:
    def __init__(self, source, size):
        self.source, self.size = source, size

    def __call__(self, img):
        h = img.shape[-1]
        top = self.source.uniform(img.shape[0]) * (h - self.size)
        rows = torch.arange(h, device=img.device)
        hole = (rows[None] >= top[:, None]) & (rows[None] < top[:, None] + self.size)
        return img.masked_fill(hole[:, None, :, None], 0.0)


class Normalise:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def __call__(self, img):
        mean = torch.tensor(self.mean, device=img.device).view(1, -1, 1, 1)
        return (img - mean) / self.std


class Chain:
    def __init__(self, *transforms):
        self.transforms = transforms

    def __call__(self, img):
        for t in self.transforms:
            img = t(img)
        return F.avg_pool2d(img, 2)


def build(device):
    source = Source(device, 7)
    chain = Chain(Brightness(source, 0.4), Cutout(source, 4), Normalise([0.4, 0.5, 0.6], 0.25))
    return chain, (torch.rand(2, 3, 16, 16, device=device),)
