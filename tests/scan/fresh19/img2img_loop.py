from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn, Tensor


@dataclass
class Job:
    image: Tensor
    prompt: Tensor
    guidance: float = 4.0
    strength: float = 0.8


class Denoiser(nn.Module):
    def __init__(self, ch: int = 4, cond: int = 8):
        super().__init__()
        self.inp = nn.Conv2d(ch, 16, 3, padding=1)
        self.film = nn.Linear(cond + 1, 16)
        self.out = nn.Conv2d(16, ch, 3, padding=1)

    def forward(self, x: Tensor, sigma: Tensor, cond: Tensor) -> Tensor:
        emb = torch.cat([cond, sigma.log().expand(cond.shape[0], 1)], dim=1)
        h = self.inp(x) + self.film(emb)[:, :, None, None]
        return self.out(torch.nn.functional.silu(h))


class Img2Img:
    def __init__(self, net: Denoiser, steps: int, device: torch.device) -> None:
        self.net, self.steps, self.device = net, steps, device
        self.sigmas = torch.linspace(4.0, 0.05, steps + 1, device=device)
        self.latent = torch.zeros(1, 4, 8, 8, device=device)
        self.cond = torch.zeros(2, 8, device=device)
        self.cursor = 0
        self.guidance = 4.0
        self.graph: Optional[torch.cuda.CUDAGraph] = None
        self.stream, self.side = torch.cuda.Stream(device), torch.cuda.Stream(device)

    def _euler(self) -> Tensor:
        s0, s1 = self.sigmas[self.cursor], self.sigmas[self.cursor + 1]
        both = self.net(torch.cat([self.latent, self.latent]), s0.reshape(1), self.cond)
        uncond, cond = both.chunk(2)
        eps = uncond + self.guidance * (cond - uncond)
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            preview = self.latent - s0 * eps
        self.latent.add_(eps * (s1 - s0))
        main.wait_stream(self.side)
        return preview

    @torch.no_grad()
    def compile(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._euler()
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.preview = self._euler()

    def run(self, job: Job) -> tuple[Tensor, list[Tensor]]:
        first = int(self.steps * (1 - job.strength))
        noise = torch.randn_like(job.image) * self.sigmas[first]
        self.latent.copy_(job.image + noise)
        self.cond[1].copy_(job.prompt)
        self.guidance = job.guidance
        frames = []
        for i in range(first, self.steps):
            self.cursor = i
            self.graph.replay()
            frames.append(self.preview)
        return self.latent.clone(), frames


def main() -> None:
    device = torch.device("cuda")
    torch.manual_seed(5)
    pipe = Img2Img(Denoiser().to(device), steps=6, device=device)
    pipe.compile()
    report = []
    for k in range(3):
        job = Job(torch.rand(1, 4, 8, 8, device=device), torch.randn(8, device=device), 2.0 + 1.5 * k, 0.9 - 0.2 * k)
        image, frames = pipe.run(job)
        report.append(torch.stack([image.mean(), torch.stack(frames).std(0).mean()]))
    print(torch.stack(report).cpu())


if __name__ == "__main__":
    main()
