import torch
import torch.nn as nn

from schedule import DDIMSchedule


class NoiseModel(nn.Module):
    def __init__(self, channels=4, width=16):
        super().__init__()
        self.inp = nn.Conv2d(channels, width, 3, padding=1)
        self.mid = nn.Conv2d(width, width, 3, padding=1)
        self.out = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x, level):
        h = torch.tanh(self.inp(x)) * (1.0 + level)
        h = h + torch.relu(self.mid(h))
        return self.out(h)


class DDIMSampler:
    def __init__(self, device, steps=10, eta=0.3, shape=(2, 4, 8, 8)):
        torch.manual_seed(7)
        self.device = device
        self.eta = eta
        self.model = NoiseModel().to(device).eval().requires_grad_(False)
        self.schedule = DDIMSchedule(steps, device)
        self.io = {
            "latent": torch.randn(shape, device=device),
            "noise": torch.randn(shape, device=device),
        }
        self.graph = None

    def denoise(self, latent, noise):
        here, nxt = self.schedule.current()
        eps = self.model(latent, here)
        clean = (latent - (1.0 - here).sqrt() * eps) / here.sqrt()
        sigma = self.eta * ((1.0 - nxt) / (1.0 - here)).sqrt()
        direction = (1.0 - nxt - sigma.square()).clamp_min(0.0).sqrt() * eps
        return nxt.sqrt() * clean + direction + sigma * noise

    def _step(self):
        self.io["latent"].copy_(self.denoise(self.io["latent"], self.io["noise"]))

    def capture(self):
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._step()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self._step()

    def sample(self, start):
        if self.graph is None:
            self.capture()
        self.io["latent"].copy_(start)
        self.schedule.reset()
        for _ in range(self.schedule.steps):
            self.io["noise"] = torch.randn_like(self.io["latent"])
            self.graph.replay()
            self.schedule.advance()
        return self.io["latent"].clone()


def build(device):
    sampler = DDIMSampler(device)
    shape = (2, 4, 8, 8)
    return sampler.denoise, (torch.randn(shape, device=device), torch.randn(shape, device=device))
