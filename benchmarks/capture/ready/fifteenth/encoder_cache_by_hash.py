"""Multi-modal decoding: image embeddings live in an encoder cache, a dictionary by the image's hash."""
import torch

import graphsafe


import hashlib


class EncoderCache:
    def __init__(self, capacity=3):
        self.entries, self.capacity = {}, capacity

    def get_or_encode(self, image, encode):
        key = hashlib.sha1(image.numpy().tobytes()).hexdigest()
        if key not in self.entries:
            if len(self.entries) >= self.capacity:
                self.entries.pop(next(iter(self.entries)))
            self.entries[key] = encode(image)
        return key


class Runner:
    def __init__(self, device, dim=8):
        self.device = device
        self.vision = torch.randn(dim, dim, device=device) / 3
        self.query = torch.randn(dim, dim, device=device) / 3
        self.cache = EncoderCache()
        self.mm_hashes = []

    def encode(self, image):
        return torch.tanh(image.to(self.device) @ self.vision)

    def schedule(self, images):
        self.mm_hashes = [self.cache.get_or_encode(image, self.encode) for image in images]

    def step(self, hidden):
        images = torch.cat([self.cache.entries[key] for key in self.mm_hashes])
        return hidden + torch.softmax(hidden @ self.query @ images.T, -1) @ images


def build(device):
    runner = Runner(device)
    images = [torch.randn(4, 8) for _ in range(6)]
    runner.schedule(images[:2])

    def refresh(args, kwargs, k):
        if k == 70:
            runner.schedule([images[0], images[2]])
        elif k % 7 == 0 and k < 70:
            runner.schedule(images[:2])
        args[0].copy_(torch.randn(5, 8))

    return graphsafe.Step(runner.step, (torch.randn(5, 8, device=device),), refresh=refresh)
