"""Image synthesis that reuses the deep features of a full pass for several light passes, with previews on the way."""

import torch
from torch import nn

ROWS, SIDE, WIDTH, STEPS, FULL_EVERY, PREVIEW_AT, REQUESTS = 4, 8, 16, 18, 6, (8, 13), 3


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Conv2d(4, WIDTH, 3, padding=1)
        self.middle = nn.Sequential(
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.SiLU(), nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.SiLU()
        )
        self.outside = nn.Conv2d(2 * WIDTH, 4, 3, padding=1)

    def deep(self, x: torch.Tensor) -> torch.Tensor:
        return self.middle(self.inside(x))

    def shallow(self, x: torch.Tensor, deep: torch.Tensor) -> torch.Tensor:
        return self.outside(torch.cat((self.inside(x), deep), dim=1))


class Painter(nn.Module):
    """From latents to pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(4, WIDTH, 3, padding=1), nn.SiLU(), nn.Conv2d(WIDTH, WIDTH, 1), nn.SiLU())
        self.grow = nn.ConvTranspose2d(WIDTH, 3, 4, stride=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.grow(self.body(x)))


class Studio:
    def __init__(self, device: torch.device) -> None:
        self.net, self.painter = Denoiser().to(device).eval(), Painter().to(device).eval()
        self.x = torch.randn(ROWS, 4, SIDE, SIDE, device=device)
        self.image = torch.zeros(ROWS, 3, 4 * SIDE, 4 * SIDE, device=device)
        self.full, self.light, self.paint = (torch.cuda.CUDAGraph() for _ in range(3))
        self.pool = torch.cuda.graph_pool_handle()
        self.warm_up()
        self.record_steps()
        self.record_paint()

    def warm_up(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.net.shallow(self.x, self.net.deep(self.x))
            self.painter(self.x)
        torch.cuda.current_stream().wait_stream(side)

    def advance(self, noise: torch.Tensor) -> None:
        self.x.sub_(noise, alpha=0.1)

    def record_steps(self) -> None:
        """The light pass reads what the last full pass left in the pool."""
        with torch.cuda.graph(self.full, pool=self.pool):
            deep = self.net.deep(self.x)
            self.advance(self.net.shallow(self.x, deep))
        with torch.cuda.graph(self.light, pool=self.pool):
            self.advance(self.net.shallow(self.x, deep))

    def record_paint(self) -> None:
        with torch.cuda.graph(self.paint, pool=self.pool):
            self.image.copy_(self.painter(self.x))

    def preview(self) -> torch.Tensor:
        self.paint.replay()
        return self.image.clone()

    def synthesize(self, seed: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
        draw = torch.Generator(self.x.device).manual_seed(seed)
        self.x.copy_(torch.randn(self.x.shape, generator=draw, device=self.x.device))
        previews = []
        for step in range(STEPS):
            if step % FULL_EVERY == 0:
                self.full.replay()
            else:
                self.light.replay()
            if step in PREVIEW_AT:
                previews.append(self.preview())
        return self.preview(), previews


@torch.no_grad()
def main() -> None:
    torch.manual_seed(45)
    studio = Studio(torch.device("cuda"))
    for seed in range(REQUESTS):
        image, previews = studio.synthesize(seed)
        spread = [round(1e3 * preview.std().item(), 4) for preview in (*previews, image)]
        print(seed, "contrast", spread)


if __name__ == "__main__":
    main()
