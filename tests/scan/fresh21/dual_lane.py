import torch
from torch import nn


class DualLane(nn.Module):
    def __init__(self, device, dim=12):
        super().__init__()
        self.left = nn.Linear(dim, dim)
        self.right = nn.Linear(dim, dim)
        self.lane = torch.cuda.Stream()

    def forward(self, x):
        here = torch.cuda.current_stream()
        self.lane.wait_stream(here)
        with torch.cuda.stream(self.lane):
            r = self.right(x).tanh()
        l = self.left(x).tanh()
        here.wait_stream(self.lane)
        return l + r


def build(device):
    torch.manual_seed(7)
    net = DualLane(device).to(device).eval().requires_grad_(False)
    return net, (torch.randn(5, 12, device=device),)
