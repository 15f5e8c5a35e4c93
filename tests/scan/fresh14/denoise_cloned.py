"""A graphed sampler with callbacks; their latents are written back into the tensor that the graph reads."""

import torch
import torch.nn as nn


class Denoiser(nn.Module):
    def __init__(self, channels=4, width=24):
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        self.noise = nn.Linear(1, width)
        self.last = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x, sigma):
        scale = (sigma**2 + 1).rsqrt()
        h = self.first(x * scale) + self.noise(sigma.log().view(1, 1)).view(1, -1, 1, 1)
        return x - sigma * self.last(torch.nn.functional.silu(h))


class Inpaint:
    """Puts the known part back after each step."""

    def __init__(self, known, mask):
        self.known = known
        self.mask = mask

    def __call__(self, index, sigma, state):
        noisy = self.known + sigma * torch.randn_like(self.known)
        state["latents"] = torch.where(self.mask, noisy, state["latents"])
        return state


class Previews:
    def __init__(self, every=2):
        self.every = every
        self.frames = []

    def __call__(self, index, sigma, state):
        if index % self.every == 0:
            self.frames.append(state["denoised"].clone())
        return state


class Trace:
    def __init__(self, steps):
        self.spread = torch.zeros(steps, device="cuda")

    def __call__(self, index, sigma, state):
        self.spread[index].copy_(state["denoised"].std())
        return state


class GraphedSampler:
    def __init__(self, net, shape, sigmas):
        self.net = net
        self.sigmas = sigmas
        self.latents = torch.zeros(shape, device="cuda")
        self.sigma = torch.ones((), device="cuda")
        self.following = torch.ones((), device="cuda")
        self.graph = None

    def step(self):
        denoised = self.net(self.latents, self.sigma)
        slope = (self.latents - denoised) / self.sigma
        self.latents.add_(slope * (self.following - self.sigma))
        return denoised

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.denoised = self.step()

    def __call__(self, noise, callbacks=()):
        self.latents.copy_(noise)
        for index, sigma in enumerate(self.sigmas[:-1]):
            self.sigma.fill_(sigma)
            self.following.fill_(self.sigmas[index + 1])
            self.graph.replay()
            state = {"latents": self.latents, "denoised": self.denoised}
            for callback in callbacks:
                state = callback(index, sigma, state)
            self.latents.copy_(state["latents"])
        return self.latents.clone()


@torch.no_grad()
def main():
    torch.manual_seed(4)
    shape = (1, 4, 16, 16)
    sigmas = [8.0 * 0.75**n for n in range(10)]
    sampler = GraphedSampler(Denoiser().cuda().eval(), shape, sigmas)
    sampler.capture()
    known = torch.rand(shape, device="cuda")
    mask = torch.zeros(shape, dtype=torch.bool, device="cuda")
    mask[..., :8] = True
    previews, trace = Previews(), Trace(len(sigmas))
    image = sampler(sigmas[0] * torch.randn(shape, device="cuda"), [Inpaint(known, mask), previews, trace])
    torch.save({"image": image, "previews": torch.cat(previews.frames), "spread": trace.spread}, "inpainted.pt")


if __name__ == "__main__":
    main()
