"""Smoothed-particle hydrodynamics of a collapsing water column, with a pair list renewed every few steps."""
import time

import torch

SUPPORT = 0.09
SKIN = 0.03
STIFFNESS = 6.0
GRAVITY = -4.0


class PairList:
    """Pairs of particles within the support plus a skin, padded to `capacity` with inactive pairs."""

    def __init__(self, capacity: int, device: torch.device):
        self.capacity = capacity
        self.left = torch.zeros(capacity, dtype=torch.int64, device=device)
        self.right = torch.zeros(capacity, dtype=torch.int64, device=device)
        self.active = torch.zeros(capacity, device=device)

    def rebuild(self, position: torch.Tensor) -> None:
        close = torch.triu(torch.cdist(position, position) < SUPPORT + SKIN, diagonal=1)
        pairs = close.nonzero()
        count = pairs.shape[0]
        if count > self.capacity:
            self.__init__(count + count // 16, position.device)
        self.left[:count].copy_(pairs[:, 0])
        self.right[:count].copy_(pairs[:, 1])
        self.active[:count].fill_(1.0)
        self.active[count:].zero_()


class Fluid:
    def __init__(self, count: int, device: torch.device):
        side = int(count**0.5)
        grid = torch.arange(side * side, device=device)
        self.position = torch.stack([(grid % side) * 0.05 + 0.05, (grid // side) * 0.05 + 0.05], dim=-1)
        self.position += 0.004 * torch.rand_like(self.position)
        self.velocity = torch.zeros_like(self.position)
        self.pairs = PairList(1600, device)
        self.dt = 0.002
        self.fastest = torch.zeros((), device=device)

    def forces(self) -> torch.Tensor:
        left, right, active = self.pairs.left, self.pairs.right, self.pairs.active
        gap = self.position[left] - self.position[right]
        distance = gap.norm(dim=-1).clamp_min(1e-4)
        overlap = (1 - distance / SUPPORT).clamp_min(0.0) * active
        approach = ((self.velocity[left] - self.velocity[right]) * gap).sum(-1) / distance
        push = (STIFFNESS * overlap - 0.5 * approach * overlap).unsqueeze(-1) * gap / distance.unsqueeze(-1)
        total = torch.zeros_like(self.position)
        total.index_add_(0, left, push).index_add_(0, right, -push)
        total[:, 1] += GRAVITY
        return total

    def advance(self) -> None:
        acceleration = self.forces()
        self.velocity.add_(acceleration * self.dt)
        self.position.add_(self.velocity * self.dt)
        outside = (self.position < 0.0) | (self.position > 1.4)
        self.velocity.mul_(torch.where(outside, -0.4, 1.0))
        self.position.clamp_(0.0, 1.4)
        self.fastest.copy_(self.velocity.norm(dim=-1).amax())


class Simulation:
    def __init__(self, fluid: Fluid, device: torch.device, renew: int = 5, frame_every: int = 10):
        self.fluid, self.renew, self.frame_every = fluid, renew, frame_every
        self.fluid.pairs.rebuild(fluid.position)
        self.io = torch.cuda.Stream(device)
        self.frame = torch.empty(fluid.position.shape, pin_memory=True)
        self.heights: list[float] = []
        self.stream = torch.cuda.Stream(device)
        saved = [t.clone() for t in (fluid.position, fluid.velocity)]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                fluid.advance()
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            fluid.advance()
        for tensor, value in zip((fluid.position, fluid.velocity), saved):
            tensor.copy_(value)

    def save_frame(self) -> None:
        with torch.cuda.stream(self.io):
            self.frame.copy_(self.fluid.position, non_blocking=True)

    def run(self, steps: int) -> float:
        busy = 0.0
        for step in range(steps):
            started = time.perf_counter()
            self.graph.replay()
            due = step % self.frame_every == 0
            if due:
                self.save_frame()
            torch.cuda.synchronize()
            busy += time.perf_counter() - started
            if due:
                self.heights.append(float(self.frame[:, 1].max()))
            if step % self.renew == self.renew - 1:
                self.fluid.pairs.rebuild(self.fluid.position)
                self.fluid.dt = min(0.004, 0.2 * SUPPORT / (1.0 + float(self.fluid.fastest)))
        return busy / steps


def main() -> None:
    torch.manual_seed(8)
    device = torch.device("cuda")
    fluid = Fluid(196, device)
    simulation = Simulation(fluid, device)
    simulation.run(200)
    centre = fluid.position.mean(0).tolist()
    print("centre of mass", [round(c, 5) for c in centre], "room for pairs", simulation.fluid.pairs.capacity)
    print("heights", [round(h, 3) for h in simulation.heights[::4]])


if __name__ == "__main__":
    main()
