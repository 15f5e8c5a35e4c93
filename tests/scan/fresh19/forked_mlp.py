import torch
from torch import nn


class Forked(nn.Module):
    def __init__(self, dim: int, hidden: int, device: torch.device):
        super().__init__()
        self.left = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))
        self.right = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))
        self.register_buffer("track", torch.zeros(dim))
        self.helper = torch.cuda.Stream(device)
        self.ready = torch.cuda.Event()
        self.over = torch.cuda.Event()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        here = torch.cuda.current_stream(x.device)
        self.ready.record(here)
        self.helper.wait_event(self.ready)
        with torch.cuda.stream(self.helper):
            b = self.right(x)
            self.track.lerp_(x.mean(0), 0.05)
            self.over.record(self.helper)
        a = self.left(x)
        here.wait_event(self.over)
        b.record_stream(here)
        return x + a * torch.sigmoid(b)


class Tall(nn.Module):
    def __init__(self, depth: int, dim: int, hidden: int, device: torch.device):
        super().__init__()
        self.blocks = nn.ModuleList(Forked(dim, hidden, device) for _ in range(depth))
        self.head = nn.Linear(dim, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def build(device):
    torch.manual_seed(7)
    net = Tall(2, 8, 16, device).to(device).requires_grad_(False)
    return net, (torch.randn(6, 8, device=device),)
