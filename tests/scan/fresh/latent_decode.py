"""Decodes latents frame by frame with a captured decoder."""
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.up = nn.ConvTranspose2d(dim, 3, 2, 2)

    def forward(self, z):
        return torch.sigmoid(self.up(z))


class Film:
    def __init__(self, device, scale=0.18):
        self.net = Decoder().to(device).eval()
        self.z = torch.zeros(1, 8, 8, 8, device=device)
        self.scale, self.device = scale, device
        self.graph = torch.cuda.CUDAGraph()

    @torch.no_grad()
    def record(self):
        stream = torch.cuda.Stream(self.device)
        scaled = self.z / self.scale
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.net(scaled)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph, stream=stream):
            self.frame = self.net(scaled)

    def frames(self, latents):
        for z in latents:
            self.z.copy_(z)
            self.graph.replay()
            yield self.frame.mul(255).byte().cpu()

    def render(self, latents):
        return torch.stack(list(self.frames(latents)))


def main():
    device = torch.device("cuda:0")
    film = Film(device)
    film.record()
    print(film.render(torch.randn(5, 1, 8, 8, 8, device=device)).float().std())


if __name__ == "__main__":
    main()
