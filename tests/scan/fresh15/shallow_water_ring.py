"""Shallow water on a torus; the winds of all steps lie in pinned memory and are copied on a stream of their own."""

import torch

SIDE, STEPS, DT, SLOTS = 64, 90, 0.02, 2


class Tank:
    def __init__(self):
        self.height = torch.ones(SIDE, SIDE, device="cuda")
        self.u = torch.zeros(SIDE, SIDE, device="cuda")
        self.v = torch.zeros(SIDE, SIDE, device="cuda")
        self.wind = torch.zeros(2, SIDE, SIDE, device="cuda")
        self.height[20:30, 20:30].fill_(1.3)
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
    """A ring of slots on the device; events say when a slot is full and when it is free again."""

    def __init__(self):
        self.winds = torch.randn(STEPS, 2, SIDE, SIDE).mul_(0.1).pin_memory()
        self.slots = torch.zeros(SLOTS, 2, SIDE, SIDE, device="cuda")
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.full = [torch.cuda.Event() for _ in range(SLOTS)]
        self.free = [torch.cuda.Event() for _ in range(SLOTS)]
        for event in self.free:
            event.record()

    def send(self, number):
        slot = number % SLOTS
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.free[slot])
            self.slots[slot].copy_(self.winds[number], non_blocking=True)
            self.full[slot].record(self.stream)

    def take(self, number, tank):
        slot = number % SLOTS
        torch.cuda.current_stream().wait_event(self.full[slot])
        tank.wind.copy_(self.slots[slot])
        self.free[slot].record()


def simulate(tank, feed):
    frames = torch.zeros(STEPS // 10, SIDE, SIDE, device="cuda")
    feed.send(0)
    for number in range(STEPS):
        if number + 1 < STEPS:
            feed.send(number + 1)
        feed.take(number, tank)
        tank.graph.replay()
        if number % 10 == 0:
            frames[number // 10].copy_(tank.height)
    return frames


@torch.no_grad()
def main():
    torch.manual_seed(24)
    tank = Tank()
    tank.record()
    frames = simulate(tank, WindFeed())
    torch.save(frames.cpu(), "water.pt")


if __name__ == "__main__":
    main()
