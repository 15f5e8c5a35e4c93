"""Image classifier: the loader augments with NumPy (slow), and a curriculum strengthens the label smoothing late."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Loader:
    """Elastic distortion and blur in NumPy, some 30 ms a batch."""

    def __init__(self, size=24, batch=16):
        self.size, self.batch = size, batch
        axis = np.fft.fftfreq(4 * size)
        self.blur = np.exp(-80.0 * (axis[:, None] ** 2 + axis[None] ** 2))
        self.served = 0

    def batch_of(self):
        images = np.empty((self.batch, 1, self.size, self.size), np.float32)
        labels = np.random.randint(0, 6, self.batch)
        for i in range(self.batch):
            field = np.random.randn(4 * self.size, 4 * self.size) + labels[i]
            for _ in range(6):
                field = np.fft.ifft2(np.fft.fft2(field) * self.blur).real
            images[i, 0] = field[:: 4, :: 4]
        self.served += 1
        return torch.from_numpy(images), torch.from_numpy(labels)

    @property
    def smoothing(self):
        return 0.0 if self.served < 150 else 0.1


def build(device):
    torch.backends.cudnn.allow_tf32 = False
    net = nn.Sequential(nn.Conv2d(1, 8, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(800, 6)).to(device)
    loader = Loader()
    x, y = torch.zeros(16, 1, 24, 24, device=device), torch.zeros(16, dtype=torch.long, device=device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)

    def step(x, y):
        loss = F.cross_entropy(net(x), y, label_smoothing=loader.smoothing)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    def refresh(args, kwargs, k):
        images, labels = loader.batch_of()
        args[0].copy_(images)
        args[1].copy_(labels)

    return graphsafe.Step(step, (x, y), {}, refresh=refresh)
