"""Particle swarm search with restarts; one graph moves all particles."""

import torch

SWARM, DIMS = 128, 6


def rastrigin(x):
    return 10 * x.shape[-1] + (x.square() - 10 * torch.cos(2 * torch.pi * x)).sum(-1)


class Swarm:
    def __init__(self, inertia=0.72, pull=1.4):
        self.inertia, self.pull = inertia, pull
        self.place = torch.empty(SWARM, DIMS, device="cuda").uniform_(-5, 5)
        self.speed = torch.zeros_like(self.place)
        self.own = self.place.clone()
        self.own_value = rastrigin(self.place)
        self.leader = self.place[0].clone()
        self.graph = None

    def move(self):
        near, far = torch.rand_like(self.place), torch.rand_like(self.place)
        self.speed.mul_(self.inertia)
        self.speed.add_(self.pull * near * (self.own - self.place) + self.pull * far * (self.leader - self.place))
        self.place.add_(self.speed.clamp_(-1, 1))
        value = rastrigin(self.place)
        better = value < self.own_value
        self.own.copy_(torch.where(better.unsqueeze(-1), self.place, self.own))
        self.own_value.copy_(torch.minimum(value, self.own_value))

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.move()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.move()

    def elect(self):
        self.leader = self.own.index_select(0, self.own_value.argmin().view(1)).squeeze(0)
        return self.own_value.min()

    def scatter(self, worst):
        self.place[worst] = 4.0 * torch.randn(len(worst), DIMS, device="cuda")

    def cool(self, factor):
        self.inertia *= factor


def search(swarm, rounds, patience=6):
    record, since = float("inf"), 0
    for number in range(rounds):
        for _ in range(4):
            swarm.graph.replay()
        value = swarm.elect()
        if value < record:
            record, since = value, 0
        else:
            since += 1
        if since > patience:
            swarm.scatter(list(range(number % 7, SWARM, 7)))
            swarm.cool(0.97)
            since = 0
    return record


@torch.no_grad()
def main():
    torch.manual_seed(15)
    swarm = Swarm()
    swarm.record()
    lowest = search(swarm, 80)
    torch.save((lowest.cpu(), swarm.leader.cpu()), "swarm.pt")


if __name__ == "__main__":
    main()
