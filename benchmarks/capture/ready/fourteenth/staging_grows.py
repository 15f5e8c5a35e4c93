"""Images are padded on the host into pinned memory, which the step uploads; a taller image than any before makes it grow."""
import numpy as np
import torch

import graphsafe


class Loader:
    def __init__(self, device, rows):
        self.pin = device.type == "cuda"
        self.staging = torch.zeros(rows, 3, 32, 32, pin_memory=self.pin)
        self.random = np.random.default_rng(11)

    def load(self, k):
        height = 24 + k % 8 if k < 140 else 34 + k % 3
        if height > self.staging.shape[2]:
            self.staging = torch.zeros(len(self.staging), 3, 2 * self.staging.shape[2], 32, pin_memory=self.pin)
        image = self.random.random((len(self.staging), 3, height, 32), dtype=np.float32)
        if self.random.random() < 0.5:
            image = image[..., ::-1].copy()
        self.staging.zero_()
        self.staging[:, :, :height].copy_(torch.from_numpy(image))


class Pipeline:
    def __init__(self, device):
        self.loader = Loader(device, 2)
        self.pixels = torch.zeros(2, 3, 32, 32, device=device)
        self.filter = torch.randn(4, 3, 3, 3, device=device) / 5

    def step(self):
        self.pixels.copy_(self.loader.staging[:, :, :32], non_blocking=True)
        return torch.nn.functional.conv2d(self.pixels, self.filter).relu().mean((2, 3))


def build(device):
    pipeline = Pipeline(device)

    def refresh(args, kwargs, k):
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()  # the last upload has read the staging memory
        pipeline.loader.load(k)

    return graphsafe.Step(pipeline.step, (), refresh=refresh)
