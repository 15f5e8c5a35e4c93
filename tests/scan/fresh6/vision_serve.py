"""Image classifier behind a prefetching reader: copies overlap with the captured forward."""
from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import nn


class Backbone(nn.Module):
    def __init__(self, width: int = 64):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, stride=4, padding=3)
        self.body = nn.Sequential(
            *[nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU()) for _ in range(6)]
        )

    def forward(self, x):
        return self.body(F.relu(self.stem(x)))


class TwoHeads(nn.Module):
    """Class scores, and a coarse quality map which is worked out beside them."""

    def __init__(self, classes: int = 1000, width: int = 64):
        super().__init__()
        self.backbone = Backbone(width)
        self.scores = nn.Linear(width, classes)
        self.quality = nn.Conv2d(width, 1, 1)
        self.beside = torch.cuda.Stream() if torch.cuda.is_available() else None

    def forward(self, images):
        features = self.backbone(images)
        self.beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.beside):
            quality = self.quality(F.adaptive_avg_pool2d(features, 7)).sigmoid()
        scores = self.scores(features.mean((2, 3)))
        return scores, quality


class Prefetcher:
    """Pinned batches from the reader, moved into the static input on a stream of its own."""

    def __init__(self, reader: Iterator[torch.Tensor], target: torch.Tensor):
        self.reader = reader
        self.target = target
        self.stream = torch.cuda.Stream()
        self.ready = torch.cuda.Event()
        self.done = False

    def advance(self) -> None:
        batch = next(self.reader, None)
        if batch is None:
            self.done = True
            return
        with torch.cuda.stream(self.stream):
            self.target.copy_(batch.pin_memory(), non_blocking=True)
            self.ready.record(self.stream)

    def wait(self) -> None:
        torch.cuda.current_stream().wait_event(self.ready)


class VisionService:
    def __init__(self, model: TwoHeads, batch: int = 32, size: int = 224, device="cuda"):
        self.model = model.to(device).eval().requires_grad_(False)
        self.images = torch.zeros(batch, 3, size, size, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.out = None

    def capture(self) -> None:
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                self.model(self.images)
        torch.cuda.current_stream().wait_stream(warm)
        with torch.cuda.graph(self.graph):
            self.out = self.model(self.images)

    def run(self, reader: Iterator[torch.Tensor], threshold: float = 0.5) -> torch.Tensor:
        feed = Prefetcher(reader, self.images)
        feed.advance()
        counts = torch.zeros((), dtype=torch.long, device=self.images.device)
        rejected = []
        while not feed.done:
            feed.wait()
            self.graph.replay()
            feed.advance()
            scores, quality = self.out
            counts += (scores.softmax(-1).amax(-1) > threshold).sum()
            rejected.append((quality.mean((1, 2, 3)) < 0.1).cpu())
        return counts


def main(batches: int = 64) -> None:
    service = VisionService(TwoHeads())
    service.capture()
    reader = (torch.rand(32, 3, 224, 224) for _ in range(batches))
    print("confident:", int(service.run(reader)))


if __name__ == "__main__":
    main()
