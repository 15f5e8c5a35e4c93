"""Text-conditioned latent diffusion for single requests, with a low-memory mode between them."""
import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Request:
    prompt: list
    negative: list
    seed: int
    steps: int = 8


class Prompter(nn.Module):
    """A bag-of-words text encoder."""

    def __init__(self, vocab=64, width=24):
        super().__init__()
        self.table = nn.Embedding(vocab, width)
        self.project = nn.Linear(width, width)

    def forward(self, words):
        return self.project(self.table(words).mean(0, keepdim=True))


class Denoiser(nn.Module):
    def __init__(self, channels=4, width=24):
        super().__init__()
        self.noise = nn.Linear(16, width)
        self.text = nn.Linear(width, width)
        self.enter = nn.Conv2d(channels, width, 3, padding=1)
        self.mid = nn.Conv2d(width, width, 3, padding=1)
        self.leave = nn.Conv2d(width, channels, 3, padding=1)
        self.register_buffer("bands", torch.exp(torch.linspace(0, 3, 8)), persistent=False)

    def forward(self, x, sigma, text):
        phase = sigma.log().unsqueeze(-1) * self.bands
        c = self.noise(torch.cat([phase.sin(), phase.cos()], -1)) + self.text(text)
        h = nn.functional.silu(self.enter(x) + c[:, :, None, None])
        h = nn.functional.silu(self.mid(h) + h)
        return self.leave(h)


class Sampler:
    """Ancestral Euler steps with guidance; one step is one graph."""

    def __init__(self, prompter, denoiser, side, device, guidance=4.0):
        self.prompter, self.denoiser, self.device = prompter, denoiser, device
        self.guidance = guidance
        self.latent = torch.zeros(1, 4, side, side, device=device)
        self.cond = torch.zeros(1, 24, device=device)
        self.uncond = torch.zeros(1, 24, device=device)
        self.sigmas = torch.ones(2, device=device)
        self.generator = torch.Generator(device).manual_seed(0)
        self.graph = None

    def _step(self):
        now, after = self.sigmas[:1], self.sigmas[1:]
        text = torch.cat([self.cond, self.uncond])
        scaled = (self.latent / (now.square() + 1).sqrt()).expand(2, -1, -1, -1)
        eps, base = self.denoiser(scaled, now.expand(2), text).chunk(2)
        eps = base + self.guidance * (eps - base)
        up = (after.square() * (now.square() - after.square()) / now.square()).clamp_min(0).sqrt()
        down = (after.square() - up.square()).clamp_min(0).sqrt()
        noise = torch.randn(self.latent.shape, generator=self.generator, device=self.device)
        self.latent.add_((down - now) * eps + up * noise)

    def capture(self):
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._step()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.generator)
        with torch.cuda.graph(self.graph, stream=stream):
            self._step()

    def load(self, prompt, negative):
        cond = self.prompter(prompt)
        uncond = self.prompter(negative)
        self.cond.copy_(cond)
        return cond, uncond

    def schedule(self, steps, low=0.03, high=10.0):
        ramp = [high ** (1 / 7) + i / (steps - 1) * (low ** (1 / 7) - high ** (1 / 7)) for i in range(steps)]
        return [r ** 7 for r in ramp] + [0.0]

    def sample(self, prompt, negative, seed, steps):
        self.load(prompt, negative)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        sigmas = self.schedule(steps)
        self.latent.normal_(generator=self.generator).mul_(math.sqrt(sigmas[0] ** 2 + 1))
        for i in range(steps):
            self.sigmas[0] = sigmas[i]
            self.sigmas[1] = sigmas[i + 1]
            self.graph.replay()
        return self.latent.clone()


class Pipeline:
    def __init__(self, device, low_memory=True):
        torch.manual_seed(8)
        self.device, self.low_memory = device, low_memory
        self.prompter = Prompter().to(device).requires_grad_(False)
        self.denoiser = Denoiser().to(device).requires_grad_(False)
        self.decode = nn.ConvTranspose2d(4, 3, 4, 4).to(device).requires_grad_(False)
        self.sampler = Sampler(self.prompter, self.denoiser, 12, device)
        self.sampler.capture()

    @torch.no_grad()
    def generate(self, request):
        words = [torch.tensor(w, device=self.device) for w in (request.prompt, request.negative)]
        self.denoiser.to(self.device)
        latent = self.sampler.sample(*words, request.seed, request.steps)
        if self.low_memory:
            self.denoiser.to("cpu")
        return self.decode(latent).clamp(-1, 1)


def main():
    pipeline = Pipeline(torch.device("cuda", 0))
    requests = [
        Request([4, 9, 23], [1], seed=5),
        Request([7, 7, 40, 2], [1, 3], seed=6),
        Request([11, 30], [50, 51, 52], seed=7, steps=12),
    ]
    for number, request in enumerate(requests):
        image = pipeline.generate(request)
        print(f"image {number}: mean {image.mean().item():+.4f}, spread {image.std().item():.4f}")


if __name__ == "__main__":
    main()
