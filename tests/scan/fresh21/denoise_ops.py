import torch
from torch import nn


class Refiner(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.proj = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x, sigma):
        return torch.tanh(self.proj(x * (1 + sigma ** 2).rsqrt()))


class Runner:
    def __init__(self, device, steps=5):
        self.net = Refiner().to(device).eval()
        self.schedule = torch.linspace(3.0, 0.0, steps + 1, device=device)
        self.latent = torch.zeros(2, 8, 8, 8, device=device)
        self.sigma = torch.ones((), device=device)
        self.scale = torch.ones((), device=device)
        self.graph = torch.cuda.CUDAGraph()

    @torch.no_grad()
    def prepare(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._advance()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self._advance()
        return self

    def _advance(self):
        self.latent.sub_(self.scale * 0.1 * self.net(self.latent, self.sigma))

    def sample(self, noise, scale):
        self.scale.fill_(scale)
        self.latent.copy_(noise)
        for i in range(len(self.schedule) - 1):
            self.sigma.copy_(self.schedule[i])
            self.graph.replay()
        return self.latent.clone()


def main(device="cuda"):
    runner = Runner(device).prepare()
    images = []
    for scale in (1.0, 2.0, 3.0):
        images.append(runner.sample(torch.randn(2, 8, 8, 8, device=device), scale))
    print(torch.stack(images).std(dim=(1, 2, 3, 4)))


if __name__ == "__main__":
    main()
