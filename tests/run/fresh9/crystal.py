"""Molecular dynamics: the force over a padded list of pairs is recorded, the list is rebuilt every few steps."""

import torch

ATOMS, STEPS, REBUILD, CUT, DT = 96, 160, 10, 1.2, 0.01


class Pairs:
    """Which atoms are near each other, a pair in one number; unused places hold the pair (0, 0), which has no force."""

    def __init__(self, place: torch.Tensor) -> None:
        near = self.find(place)
        self.room = 2 * len(near)
        self.codes = torch.zeros(self.room, dtype=torch.long, device=place.device)
        self.fill(near)

    @staticmethod
    def find(place: torch.Tensor) -> torch.Tensor:
        distance = torch.cdist(place, place)
        first, second = (distance < CUT).triu(diagonal=1).nonzero().unbind(1)
        return first * ATOMS + second

    def fill(self, near: torch.Tensor) -> None:
        self.codes.zero_()
        self.codes[: len(near)].copy_(near)

    def both(self) -> tuple[torch.Tensor, torch.Tensor]:
        return (self.codes // ATOMS) % ATOMS, self.codes % ATOMS

    def rebuild(self, place: torch.Tensor) -> bool:
        """Whether the old memory was too small."""
        near = self.find(place)
        grown = len(near) > self.room
        if grown:
            self.room = 2 * len(near)
            self.codes.resize_(self.room)
        self.fill(near)
        return grown


class Gas:
    def __init__(self, device: torch.device) -> None:
        self.place = 1.6 * torch.randn(ATOMS, 3, device=device)
        self.speed = torch.zeros(ATOMS, 3, device=device)
        self.energy = torch.zeros((), device=device)
        self.pairs = Pairs(self.place)
        self.graph: torch.cuda.CUDAGraph | None = None

    def move(self) -> None:
        first, second = self.pairs.both()
        apart = self.place[first] - self.place[second]
        square = apart.square().sum(-1, keepdim=True)
        real = (first != second)[:, None]
        size = torch.where(real & (square < CUT**2), 1.0 - square / CUT**2, 0.0)
        push = 2.0 * size * apart
        force = -0.8 * self.place
        force = force.index_add(0, first, push).index_add(0, second, -push)
        self.speed.add_(force, alpha=DT).mul_(0.995)
        self.place.add_(self.speed, alpha=DT)
        self.energy.copy_(0.5 * self.speed.square().sum() + size.square().sum())

    def record(self) -> torch.cuda.CUDAGraph:
        kept = self.place.clone(), self.speed.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.move()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.move()
        self.place.copy_(kept[0])
        self.speed.copy_(kept[1])
        return graph

    def run(self, steps: int) -> torch.Tensor:
        energies = []
        for step in range(steps):
            if step % REBUILD == 0 and self.pairs.rebuild(self.place):
                self.graph = None
            if self.graph is None:
                self.graph = self.record()
            self.graph.replay()
            energies.append(self.energy.clone())
        return torch.stack(energies)


@torch.no_grad()
def main() -> None:
    torch.manual_seed(12)
    gas = Gas(torch.device("cuda"))
    energies = gas.run(STEPS).tolist()
    print("energy", [round(value, 3) for value in energies[::40]], "room for pairs", gas.pairs.room)


if __name__ == "__main__":
    main()
