"""Flow around a plate by a lattice Boltzmann method; inflow, plate and frames have places of their own."""

import torch

ROWS, COLUMNS, TAU, ROUNDS = 24, 48, 0.7, 20
STEPS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
WEIGHTS = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
BACK = (0, 3, 4, 1, 2, 7, 8, 5, 6)


class Tunnel:
    def __init__(self, device):
        self.directions = torch.tensor(STEPS, dtype=torch.float, device=device)
        self.weights = torch.tensor(WEIGHTS, device=device).view(9, 1, 1)
        self.flow = self.weights.repeat(1, ROWS, COLUMNS)
        self.density = torch.ones(ROWS, COLUMNS, device=device)
        self.speed = torch.zeros(2, ROWS, COLUMNS, device=device)
        self.wall = torch.zeros(ROWS, COLUMNS, dtype=torch.bool, device=device)
        self.inflow = torch.zeros((), device=device)
        self.fastest = torch.zeros((), device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.place(12)

    def place(self, column):
        self.wall.zero_()
        self.wall[8:16, column : column + 2].fill_(True)

    def rest(self, density, speed):
        along = torch.einsum("kd,drc->krc", self.directions, speed)
        square = speed.square().sum(0)
        return density * self.weights * (1 + 3 * along + 4.5 * along.square() - 1.5 * square)

    def advance(self):
        moved = torch.stack([self.flow[k].roll((dy, dx), (0, 1)) for k, (dx, dy) in enumerate(STEPS)])
        bounced = torch.stack([moved[k] for k in BACK])
        self.density.copy_(moved.sum(0))
        self.speed.copy_(torch.einsum("kd,krc->drc", self.directions, moved) / self.density)
        self.speed[0, :, 0].copy_(self.inflow.expand(ROWS))
        moved = moved + (self.rest(self.density, self.speed) - moved) / TAU
        self.flow.copy_(torch.where(self.wall, bounced, moved))
        self.fastest.copy_(torch.maximum(self.fastest, self.speed.abs().amax()))

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.advance()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.advance()


def play(tunnel, rounds):
    """Yields a copy of the density after each round of some time steps."""
    for number in range(rounds):
        tunnel.inflow.fill_(min(0.08, 0.01 * number))
        if number % 6 == 5:
            tunnel.place(12 + number)
        for _ in range(4):
            tunnel.graph.replay()
        yield tunnel.density.clone()


@torch.no_grad()
def main():
    tunnel = Tunnel(torch.device("cuda"))
    tunnel.capture()
    frames = list(play(tunnel, ROUNDS))
    torch.save({"frames": torch.stack(frames).cpu(), "fastest": tunnel.fastest.cpu()}, "tunnel.pt")


if __name__ == "__main__":
    main()
