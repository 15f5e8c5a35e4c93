"""Smoke particles carried by a recorded flow step; those that left the box make room for new ones at the vent."""

import torch

COUNT, FRAMES, BOX, DT = 2048, 60, 4.0, 0.05


class Flow:
    """A few vortices whose strength the program changes over time."""

    def __init__(self, device: torch.device) -> None:
        self.centres = BOX * torch.rand(6, 2, device=device)
        self.strength = torch.randn(6, device=device)

    def velocity(self, position: torch.Tensor) -> torch.Tensor:
        away = position[:, None] - self.centres[None]
        weight = self.strength / (away.square().sum(-1) + 0.1)
        turned = torch.stack((-away[..., 1], away[..., 0]), dim=-1)
        drift = (weight[..., None] * turned).sum(1)
        drift[:, 1] += 1.0
        return drift


class Smoke:
    def __init__(self, flow: Flow, device: torch.device) -> None:
        self.flow = flow
        self.position = BOX * torch.rand(COUNT, 2, device=device)
        self.inside = torch.ones(COUNT, dtype=torch.bool, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.advance()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.advance()

    def advance(self) -> None:
        half = self.position + 0.5 * DT * self.flow.velocity(self.position)
        self.position.add_(self.flow.velocity(half), alpha=DT)
        within = (self.position >= 0) & (self.position <= BOX)
        self.inside.copy_(within.all(dim=-1))

    def compact(self) -> int:
        kept = self.position[self.inside]
        count = kept.shape[0]
        self.position[:count].copy_(kept)
        self.position[count:].uniform_(0.4 * BOX, 0.6 * BOX)
        return COUNT - count

    def frame(self) -> int:
        self.graph.replay()
        return self.compact()


def picture(position: torch.Tensor, cells: int = 16) -> torch.Tensor:
    index = (position / BOX * cells).long().clamp_(0, cells - 1)
    flat = index[:, 1] * cells + index[:, 0]
    image = torch.zeros(cells * cells, device=position.device)
    return image.index_add_(0, flat, torch.ones_like(flat, dtype=torch.float32)).view(cells, cells)


@torch.no_grad()
def main() -> None:
    torch.manual_seed(47)
    device = torch.device("cuda")
    flow = Flow(device)
    smoke = Smoke(flow, device)
    born = 0
    for frame in range(FRAMES):
        flow.strength.mul_(0.99)
        born += smoke.frame()
    image = picture(smoke.position)
    print("born", born, "densest cell", image.max().item())


if __name__ == "__main__":
    main()
