import torch
from torch import nn


class UNetish(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.a = nn.Conv2d(ch, ch, 3, padding=1)
        self.b = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x, sigma):
        return self.b(torch.tanh(self.a(x * (1 + sigma ** 2).rsqrt())))


class Pipeline:
    def __init__(self, device, steps=6):
        self.net = UNetish().to(device).eval()
        self.sigmas = torch.linspace(4.0, 0.1, steps + 1, device=device)
        self.guidance = 2.0
        self.x = torch.randn(1, 8, 16, 16, device=device)
        self.sigma = torch.ones((), device=device)
        self.dt = torch.zeros((), device=device)
        self.g = None

    def _step(self):
        eps = self.net(self.x, self.sigma)
        base = self.net(self.x, self.sigma * 0 + 1)
        return self.x + self.dt * (base + self.guidance * (eps - base))

    @torch.no_grad()
    def compile(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.g):
            self.y = self._step()

    def sample(self, noise, guidance):
        self.guidance = guidance
        self.x = noise * self.sigmas[0]
        for i in range(len(self.sigmas) - 1):
            self.sigma.copy_(self.sigmas[i])
            self.dt.copy_(self.sigmas[i + 1] - self.sigmas[i])
            self.g.replay()
            self.x.copy_(self.y)
        return self.x.clone()


def main(device="cuda"):
    pipe = Pipeline(device)
    pipe.compile()
    for scale in (2.0, 5.0, 7.5):
        img = pipe.sample(torch.randn(1, 8, 16, 16, device=device), scale)
        print(scale, tuple(img.shape))


if __name__ == "__main__":
    main()
