import torch
import torch.nn as nn


class TinyUNet(nn.Module):
    def __init__(self, channels: int = 8):
        super().__init__()
        self.inp = nn.Conv2d(3, channels, 3, padding=1)
        self.mid = nn.Conv2d(channels, channels, 3, padding=1)
        self.out = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, x, c_noise):
        h = torch.relu(self.inp(x) + c_noise)
        return self.out(torch.relu(self.mid(h)) + h)


class EulerStepper:
    """One Euler step of the probability-flow ODE over a fixed latent."""

    def __init__(self, net: TinyUNet, schedule, shape, device):
        self.net, self.schedule, self.device = net, schedule, device
        self.latent = torch.zeros(shape, device=device)
        self.clean = None
        self.graph = None
        self.stream = torch.cuda.Stream(device)

    def _predict(self):
        sigma = self.schedule.current
        c_in = 1.0 / (1.0 + sigma * sigma) ** 0.5
        return self.latent - sigma * self.net(self.latent * c_in, 0.125 * self.schedule.log_snr())

    def _advance(self, clean):
        sigma = self.schedule.current
        slope = (self.latent - clean) / sigma
        self.latent.add_(slope * (self.schedule.following - sigma))

    @torch.no_grad()
    def compile(self):
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            self._advance(self._predict())
        here.wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.clean = self._predict()
            self._advance(self.clean)

    def step(self, index: int):
        self.schedule.seek(index)
        self.graph.replay()
        return self.clean
