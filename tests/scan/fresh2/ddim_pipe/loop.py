import torch
from torch import nn

from .schedule import DDIMSchedule


class Denoiser(nn.Module):
    def __init__(self, dim=24, width=64, train_steps=1000):
        super().__init__()
        self.time = nn.Embedding(train_steps, width)
        self.inp = nn.Linear(dim, width)
        self.out = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, dim))

    def forward(self, x, t):
        return self.out(self.inp(x) + self.time(t))


class Sampler:
    def __init__(self, model, schedule, shape, device):
        self.model, self.schedule = model, schedule
        self.x = torch.zeros(shape, device=device)
        self.device = device
        self.graph = None

    @torch.no_grad()
    def step(self, x):
        eps = self.model(x, self.schedule.at(self.schedule.timesteps))
        x.copy_(self.schedule.step(eps, x))
        self.schedule.advance()
        return x

    def capture(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step(self.x)
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=side):
            self.step(self.x)

    def sample(self, count, on_preview=None, every=10):
        images = []
        for _ in range(count):
            self.schedule.restart()
            self.x.normal_()
            for i, t in enumerate(self.schedule.timesteps_host):
                self.graph.replay()
                if on_preview is not None and i % every == 0:
                    on_preview(t, self.x.cpu().numpy())
            images.append(self.x.clone())
        return torch.cat(images).cpu()


def build(device):
    torch.manual_seed(0)
    schedule = DDIMSchedule(1000, 25, device, eta=0.3)
    sampler = Sampler(Denoiser().to(device).eval(), schedule, (4, 24), device)
    x = torch.randn(4, 24, device=device)
    return sampler.step, (x,)
