from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class EditSpec:
    picture: Tensor
    text: Tensor
    scale: float
    keep: float


class UNetLite(nn.Module):
    def __init__(self, channels: int = 4, cond: int = 8):
        super().__init__()
        self.down = nn.Conv2d(channels, 12, 3, padding=1)
        self.embed = nn.Linear(cond + 1, 12)
        self.up = nn.Conv2d(12, channels, 3, padding=1)

    def forward(self, x, sigma, cond):
        level = sigma.log().expand(cond.shape[0], 1)
        h = self.down(x) + self.embed(torch.cat([cond, level], 1))[..., None, None]
        return self.up(torch.nn.functional.silu(h))


class EditPipeline:
    def __init__(self, net: UNetLite, steps: int, device: torch.device):
        self.net, self.steps, self.device = net, steps, device
        self.sigmas = torch.linspace(3.0, 0.05, steps + 1, device=device)
        self.index = torch.zeros(1, dtype=torch.long, device=device)
        self.x = torch.zeros(1, 4, 8, 8, device=device)
        self.cond = torch.zeros(2, 8, device=device)
        self.scale = torch.ones((), device=device)
        self.history = torch.zeros(steps, 1, 4, 8, 8, device=device)

    def _advance(self) -> None:
        now = self.sigmas.index_select(0, self.index)
        after = self.sigmas.index_select(0, self.index + 1)
        plain, guided = self.net(self.x.expand(2, -1, -1, -1), now, self.cond).chunk(2)
        eps = plain + self.scale * (guided - plain)
        self.history.index_copy_(0, self.index, (self.x - now * eps)[None])
        self.x.add_(eps * (after - now))
        self.index.add_(1)

    @torch.no_grad()
    def prepare(self) -> "EditPipeline":
        lane = torch.cuda.Stream(self.device)
        lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane):
            self._advance()
            self.index.zero_()
        torch.cuda.current_stream().wait_stream(lane)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=lane):
            self._advance()
        return self

    def __call__(self, spec: EditSpec) -> tuple[Tensor, Tensor]:
        first = int(self.steps * spec.keep)
        self.x.copy_(spec.picture + torch.randn_like(spec.picture) * self.sigmas[first])
        self.cond[1].copy_(spec.text)
        self.scale.fill_(spec.scale)
        self.index.fill_(first)
        self.history.zero_()
        for _ in range(first, self.steps):
            self.graph.replay()
        return self.x.clone(), self.history[first:].clone()


def main() -> None:
    device = torch.device("cuda")
    torch.manual_seed(5)
    pipe = EditPipeline(UNetLite().to(device), 6, device).prepare()
    stats = []
    for k in range(3):
        spec = EditSpec(torch.rand(1, 4, 8, 8, device=device), torch.randn(8, device=device), 2.0 + k, 0.2 * k)
        image, views = pipe(spec)
        stats.append(torch.stack([image.std(), views.std(0).mean()]))
    print(torch.stack(stats).cpu())


if __name__ == "__main__":
    main()
