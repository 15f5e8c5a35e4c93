"""Image requests of several resolutions: a graph a resolution, guidance only where a negative prompt is given."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

STEPS, TEXT, GUIDANCE = 10, 16, 4.0


@dataclass
class Request:
    size: tuple[int, int]
    prompt: torch.Tensor
    negative: torch.Tensor | None = None


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(4, 24, 3, padding=1)
        self.text = nn.Linear(TEXT, 24)
        self.leave = nn.Conv2d(24, 4, 3, padding=1)

    def forward(self, x: torch.Tensor, prompt: torch.Tensor) -> torch.Tensor:
        h = self.enter(x) + self.text(prompt)[:, :, None, None]
        return self.leave(F.silu(h))


class Plan:
    """One resolution: static inputs, and the graph of one denoising step."""

    def __init__(self, net: Net, size: tuple[int, int], negative: torch.Tensor | None, device: torch.device) -> None:
        self.net = net
        self.x = torch.zeros(1, 4, *size, device=device)
        self.prompt = torch.zeros(1, TEXT, device=device)
        self.negative = torch.zeros(1, TEXT, device=device)
        guided = negative is not None
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.update(guided)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.update(guided)

    def update(self, guided: bool) -> None:
        noise = self.net(self.x, self.prompt)
        if guided:
            away = self.net(self.x, self.negative)
            noise = away + GUIDANCE * (noise - away)
        self.x.sub_(noise, alpha=1.0 / STEPS)


class Pipeline:
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.net = Net().to(device).eval()
        self.plans: dict[tuple, Plan] = {}

    def plan(self, request: Request) -> Plan:
        key = (request.size,)
        if key not in self.plans:
            self.plans[key] = Plan(self.net, request.size, request.negative, self.device)
        return self.plans[key]

    def run(self, request: Request) -> torch.Tensor:
        plan = self.plan(request)
        plan.prompt.copy_(request.prompt)
        if request.negative is not None:
            plan.negative.copy_(request.negative)
        plan.x.normal_()
        for _ in range(STEPS):
            plan.graph.replay()
        return plan.x.clone()


@torch.no_grad()
def main() -> None:
    torch.manual_seed(41)
    device = torch.device("cuda")
    pipeline = Pipeline(device)
    images = []
    for number, size in enumerate([(16, 16), (24, 16), (16, 16), (24, 16), (16, 16), (24, 16)]):
        prompt = torch.randn(1, TEXT, device=device)
        negative = torch.randn(1, TEXT, device=device) if number >= 2 else None
        images.append(pipeline.run(Request(size, prompt, negative)))
    print("mean", [round(image.mean().item(), 4) for image in images])


if __name__ == "__main__":
    main()
