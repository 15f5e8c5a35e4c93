"""Shallow water on a torus; the wind of each step comes from the host through two pinned blocks."""

import torch

SIDE, STEPS, DT = 64, 90, 0.02


class Tank:
    def __init__(self):
        self.height = torch.ones(SIDE, SIDE, device="cuda")
        self.u = torch.zeros(SIDE, SIDE, device="cuda")
        self.v = torch.zeros(SIDE, SIDE, device="cuda")
        self.wind = torch.zeros(2, SIDE, SIDE, device="cuda")
        self.height[20:30, 20:30] = 1.3
        self.graph = torch.cuda.CUDAGraph()

    def step(self):
        slope_x = (self.height.roll(-1, 0) - self.height.roll(1, 0)) / 2
        slope_y = (self.height.roll(-1, 1) - self.height.roll(1, 1)) / 2
        self.u.add_(self.wind[0] - slope_x, alpha=DT).mul_(0.999)
        self.v.add_(self.wind[1] - slope_y, alpha=DT).mul_(0.999)
        flow = (self.u.roll(-1, 0) - self.u.roll(1, 0)) / 2 + (self.v.roll(-1, 1) - self.v.roll(1, 1)) / 2
        self.height.sub_(DT * flow)

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.step()


class WindFeed:
    """Two pinned blocks, filled in turn while the device works."""

    def __init__(self):
        self.blocks = [torch.zeros(2, SIDE, SIDE).pin_memory() for _ in range(2)]
        self.stream = torch.cuda.Stream()

    def fill(self, number):
        block = self.blocks[number % 2]
        block.normal_(0.0, 0.1)
        return block

    def send(self, number, tank):
        block = self.fill(number)
        with torch.cuda.stream(self.stream):
            tank.wind.copy_(block, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.stream)


def simulate(tank, feed):
    frames = []
    for number in range(STEPS):
        feed.send(number, tank)
        tank.graph.replay()
        if number % 10 == 0:
            frames.append(tank.height)
    return torch.stack(frames)


@torch.no_grad()
def main():
    torch.manual_seed(24)
    tank = Tank()
    tank.record()
    frames = simulate(tank, WindFeed())
    torch.save(frames.cpu(), "water.pt")


if __name__ == "__main__":
    main()
