"""Image and text towers that run beside each other on two streams."""
from contextlib import contextmanager

import torch
import torch.nn as nn
import torch.nn.functional as F


class Lane:
    def __init__(self, device: torch.device):
        self.device = device
        self.stream = torch.cuda.Stream(device)

    @contextmanager
    def beside(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            yield

    def join(self):
        torch.cuda.current_stream(self.device).wait_stream(self.stream)


class ImageTower(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, stride=4)
        self.proj = nn.Linear(dim, dim)

    def forward(self, image):
        return self.proj(torch.relu(self.patch(image)).flatten(2).mean(-1))


class TextTower(nn.Module):
    def __init__(self, vocab: int, dim: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, ids):
        return self.proj(self.embed(ids).mean(1))


class UsageStats(nn.Module):
    """Counts how often each token was seen, off the critical path."""

    def __init__(self, vocab: int):
        super().__init__()
        self.register_buffer("seen", torch.zeros(vocab))

    def forward(self, ids):
        flat = ids.flatten()
        self.seen.index_add_(0, flat, torch.ones_like(flat, dtype=self.seen.dtype))


class DualEncoder(nn.Module):
    def __init__(self, device, vocab: int = 100, dim: int = 32):
        super().__init__()
        self.image, self.text = ImageTower(dim), TextTower(vocab, dim)
        self.stats = UsageStats(vocab)
        self.text_lane, self.stats_lane = Lane(device), Lane(device)

    def forward(self, image, ids):
        with self.text_lane.beside():
            text = self.text(ids)
        with self.stats_lane.beside():
            self.stats(ids)
        picture = self.image(image)
        self.text_lane.join()
        return F.cosine_similarity(picture, text)


def build(device):
    torch.manual_seed(28)
    model = DualEncoder(device).to(device).eval().requires_grad_(False)
    image = torch.randn(4, 3, 16, 16, device=device)
    ids = torch.randint(0, 100, (4, 9), device=device)
    return model, (image, ids)


if __name__ == "__main__":
    model, args = build(torch.device("cuda"))
    print(model(*args))
