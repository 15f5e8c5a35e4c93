"""Video indexing: each frame is encoded by a recorded network and its feature joins the clip's history."""

import torch
import torch.nn.functional as F
from torch import nn

SIDE, FEATURE, FRAMES, REPORT = 24, 40, 72, 24


class FrameEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv2d(3, 12, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU()
        )
        self.project = nn.Linear(24, FEATURE)

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        return F.normalize(self.project(self.convs(frame).mean((2, 3))), dim=-1)


class Indexer:
    def __init__(self, device: torch.device) -> None:
        self.encoder = FrameEncoder().to(device).eval()
        self.frame = torch.zeros(1, 3, SIDE, SIDE, device=device)
        self.history = torch.empty(FEATURE, 0, device=device)
        self.filled = 0
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.encoder(self.frame)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.feature = self.encoder(self.frame)

    def push(self, frame: torch.Tensor) -> None:
        self.frame.copy_(frame)
        self.graph.replay()
        self.history = torch.hstack((self.history, self.feature.t()))
        self.filled += 1

    def summary(self) -> torch.Tensor:
        """The scene's novelty: how little each frame looks like the frames before it."""
        seen = self.history[:, : self.filled]
        alike = (seen.t() @ seen).tril(-1)
        return 1 - alike.amax(dim=1)

    def restart(self) -> None:
        self.history = self.history[:, :0].clone()
        self.filled = 0


def clip(seed: int, device: torch.device):
    draw = torch.Generator(device).manual_seed(seed)
    scene = torch.rand(1, 3, SIDE, SIDE, generator=draw, device=device)
    for number in range(FRAMES):
        if number % 18 == 17:
            scene = torch.rand(1, 3, SIDE, SIDE, generator=draw, device=device)
        yield scene + 0.05 * torch.randn(1, 3, SIDE, SIDE, generator=draw, device=device)


@torch.no_grad()
def main() -> None:
    torch.manual_seed(4)
    device = torch.device("cuda")
    indexer = Indexer(device)
    for seed in (1, 2):
        for number, frame in enumerate(clip(seed, device), start=1):
            indexer.push(frame)
            if number % REPORT == 0:
                novelty = indexer.summary()
                print(f"clip {seed}, frame {number}: most novel {novelty[1:].argmax().item() + 1}")
        indexer.restart()


if __name__ == "__main__":
    main()
