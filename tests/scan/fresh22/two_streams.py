import torch
from torch import nn


class Towers(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.user, self.item = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.streams = {}

    def lane(self, device):
        if device.type not in self.streams:
            self.streams[device.type] = torch.cuda.Stream()
        return self.streams[device.type]

    @torch.no_grad()
    def forward(self, u, i):
        main = torch.cuda.current_stream()
        lane = self.lane(u.device)
        lane.wait_stream(main)
        with torch.cuda.stream(lane):
            b = torch.tanh(self.item(i))
        a = torch.tanh(self.user(u))
        main.wait_stream(lane)
        return a @ b.t()


def build(device):
    torch.manual_seed(3)
    return Towers().to(device), (torch.randn(4, 16, device=device), torch.randn(7, 16, device=device))
