"""Ancestral sampler: one captured denoising step serves requests with their own seed and guidance.

The generator the graph knows stays; a request only lends it the state of a new one.
"""
from dataclasses import dataclass

import torch

DEV = torch.device("cuda")
PIX, COND, WIDTH, LEVELS = 192, 16, 256, 8


@dataclass
class Request:
    seed: int
    guidance: float
    prompt: torch.Tensor


class Denoiser(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.level = torch.nn.Embedding(LEVELS, WIDTH)
        self.prompt = torch.nn.Linear(COND, WIDTH)
        self.enter = torch.nn.Linear(PIX, WIDTH)
        self.leave = torch.nn.Linear(WIDTH, PIX)

    def forward(self, x, level, prompt):
        return self.leave(torch.nn.functional.silu(self.enter(x) + self.level(level) + self.prompt(prompt)))


class Sampler:
    def __init__(self, net):
        self.net = net
        self.guidance = torch.ones((), device=DEV)
        self.served = 0
        self.rng = torch.Generator(device=DEV)
        self.keep = torch.linspace(0.7, 0.98, LEVELS, device=DEV)
        self.noise = torch.linspace(0.0, 0.5, LEVELS, device=DEV)
        self.x = torch.zeros(1, PIX, device=DEV)
        self.level = torch.full((1,), LEVELS - 1, dtype=torch.long, device=DEV)
        self.prompt = torch.zeros(1, COND, device=DEV)
        self.graph = None

    def denoise(self):
        with_prompt = self.net(self.x, self.level, self.prompt)
        without = self.net(self.x, self.level, torch.zeros_like(self.prompt))
        eps = without + self.guidance * (with_prompt - without)
        fresh = torch.randn(1, PIX, generator=self.rng, device=DEV)
        keep = self.keep.index_select(0, self.level)
        noise = self.noise.index_select(0, self.level)
        self.x.copy_(keep * (self.x - 0.1 * eps) + noise * fresh)
        self.level.sub_(1)

    def capture(self):
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            self.denoise()
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.rng)
        with torch.cuda.graph(self.graph):
            self.denoise()

    def sample(self, request):
        self.rng.set_state(torch.Generator(device=DEV).manual_seed(request.seed).get_state())
        self.guidance.fill_(request.guidance)
        self.served += 1
        self.prompt.copy_(request.prompt)
        self.x.normal_(generator=self.rng)
        self.level.fill_(LEVELS - 1)
        for _ in range(LEVELS):
            if self.graph is None:
                self.denoise()
            else:
                self.graph.replay()
        return self.x.clone()


@torch.no_grad()
def main():
    torch.manual_seed(8)
    net = Denoiser().to(DEV)
    prompts = torch.randn(4, 1, COND).to(DEV)
    requests = [Request(70 + n, scale, p) for n, (scale, p) in enumerate(zip((1.0, 7.5, 3.0, 7.5), prompts))]

    fast = Sampler(net)
    fast.capture()
    images = torch.cat([fast.sample(r) for r in requests])

    torch.cuda.synchronize()
    slow = Sampler(net)
    want = torch.cat([slow.sample(r) for r in requests])
    good = fast.served == slow.served and torch.allclose(images, want, rtol=1e-3, atol=1e-3)
    print("values right" if good else "values wrong")


if __name__ == "__main__":
    main()
