"""A toy diffusion pipeline; the denoiser is captured for each latent size."""
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.inp = nn.Linear(channels, 32)
        self.out = nn.Linear(32, channels)

    def forward(self, latent, text):
        return self.out(torch.tanh(self.inp(latent) + text))


class Pipeline:
    def __init__(self, device, channels=8):
        self.device, self.channels = device, channels
        self.net = Denoiser(channels).to(device).requires_grad_(False)
        self.uncond = torch.zeros(32, device=device)
        self.text = torch.zeros(32, device=device)
        self.size = None
        self.captured = {}

    def set_size(self, size):
        if size == self.size:
            return
        torch.cuda.synchronize()
        self.captured.clear()
        self.size = size
        self.latent = torch.zeros(size * size, self.channels, device=self.device)

    def denoise(self, guidance):
        cond = self.net(self.latent, self.text)
        free = self.net(self.latent, self.uncond)
        noise = free + guidance * (cond - free)
        self.latent.sub_(noise, alpha=0.1)
        return noise

    def graph_for(self, guidance):
        key = (self.size, self.channels)
        if key in self.captured:
            return self.captured[key]
        start = self.latent.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.denoise(guidance)
            self.denoise(guidance)
        torch.cuda.current_stream().wait_stream(side)
        self.latent.copy_(start)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            noise = self.denoise(guidance)
        self.captured[key] = (graph, noise)
        return self.captured[key]

    def generate(self, prompt, size, guidance, steps=6):
        self.set_size(size)
        gen = torch.Generator().manual_seed(len(prompt))
        self.text.copy_(torch.randn(32, generator=gen))
        self.latent.copy_(torch.randn(size * size, self.channels, generator=gen))
        graph, noise = self.graph_for(guidance)
        for _ in range(steps):
            graph.replay()
        return self.latent.cpu(), noise.abs().mean().item()


JOBS = [
    ("a lighthouse", 8, 7.5),
    ("a lighthouse", 8, 1.0),
    ("two herons", 8, 4.0),
    ("a tram in the rain", 12, 7.5),
    ("a tram in the rain", 12, 2.0),
    ("a lighthouse", 8, 3.0),
    ("an orchard", 8, 7.5),
]


def main():
    torch.manual_seed(4)
    pipe = Pipeline(torch.device("cuda"))
    for prompt, size, guidance in JOBS:
        image, noise = pipe.generate(prompt, size, guidance)
        print(f"{prompt} {size}x{size} g={guidance}: std {image.std():.4f} noise {noise:.4f}")


if __name__ == "__main__":
    main()
