"""Parallel tempering of the square-lattice Ising model; one checkerboard sweep is a CUDA graph."""
import argparse
import math

import torch


class Lattices:
    """Replicas of one lattice, each with its own inverse temperature."""

    def __init__(self, replicas, side, device):
        self.device = device
        self.spins = (torch.randint(0, 2, (replicas, side, side), device=device) * 2 - 1).float()
        row = torch.arange(side, device=device)
        self.black = ((row[:, None] + row[None, :]) % 2 == 0)
        self.beta = torch.linspace(0.30, 0.60, replicas, device=device)
        self.coupling = 1.0

    def neighbors(self):
        s = self.spins
        return s.roll(1, 1) + s.roll(-1, 1) + s.roll(1, 2) + s.roll(-1, 2)

    def flip(self, color):
        cost = 2.0 * self.coupling * self.spins * self.neighbors()
        chance = torch.exp(-self.beta[:, None, None] * cost)
        take = (torch.rand_like(chance) < chance) & color
        self.spins.copy_(torch.where(take, -self.spins, self.spins))

    def energy(self):
        return -0.5 * self.coupling * (self.spins * self.neighbors()).sum((1, 2))

    def magnetization(self):
        return self.spins.mean((1, 2))


class SweepGraph:
    def __init__(self, lattices, sweeps):
        self.lattices, self.sweeps = lattices, sweeps
        self.stream = torch.cuda.Stream(lattices.device)
        self.graph = None

    def _body(self):
        for _ in range(self.sweeps):
            self.lattices.flip(self.lattices.black)
            self.lattices.flip(~self.lattices.black)
        return self.lattices.energy(), self.lattices.magnetization()

    def record(self):
        current = torch.cuda.current_stream(self.lattices.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            self._body()
        current.wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.energy, self.magnetization = self._body()

    def __call__(self):
        self.graph.replay()
        return self.energy, self.magnetization


class ReplicaExchange:
    """Swaps neighboring replicas, even and odd pairs in turn."""

    def __init__(self, lattices):
        self.lattices = lattices
        n = lattices.beta.shape[0]
        self.order = torch.arange(n, device=lattices.device)
        self.swaps = torch.zeros((), dtype=torch.int64, device=lattices.device)

    def exchange(self, energy, parity):
        lat = self.lattices
        left = self.order[parity : -1 : 2]
        right = left + 1
        gain = (lat.beta[left] - lat.beta[right]) * (energy[left] - energy[right])
        take = torch.rand_like(gain).log() < gain
        order = self.order.clone()
        order[left] = torch.where(take, right, left)
        order[right] = torch.where(take, left, right)
        self.swaps += take.sum()
        lat.spins = lat.spins[order]


class Simulation:
    def __init__(self, replicas, side, device, seed):
        self.device, self.seed = device, seed
        self.lattices = Lattices(replicas, side, device)
        self.sweep = SweepGraph(self.lattices, sweeps=2)
        self.swap = ReplicaExchange(self.lattices)

    def anneal(self, rounds, start=0.4):
        for k in range(rounds):
            self.lattices.coupling = start + (1.0 - start) * (k + 1) / rounds
            self.sweep()

    def measure(self, rounds):
        energies, moments = [], []
        for k in range(rounds):
            torch.cuda.manual_seed(self.seed)
            energy, m = self.sweep()
            energies.append(energy)
            moments.append(m.square())
            self.swap.exchange(energy, k % 2)
        energies, moments = torch.stack(energies), torch.stack(moments)
        heat = self.lattices.beta.square() * energies.var(0)
        return energies.mean(0), heat, moments.mean(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=16)
    parser.add_argument("--replicas", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=12)
    args = parser.parse_args()
    device = torch.device("cuda", 0)
    torch.manual_seed(args.seed)
    sim = Simulation(args.replicas, args.side, device, args.seed)
    sim.sweep.record()
    sim.anneal(args.rounds)
    energy, heat, moment = sim.measure(args.rounds)
    sites = args.side ** 2
    for beta, e, c, m in zip(sim.lattices.beta.tolist(), energy.tolist(), heat.tolist(), moment.tolist()):
        print(f"T {1 / beta:.3f}  e {e / sites:+.4f}  c {c / sites:.4f}  |m| {math.sqrt(m):.4f}")


if __name__ == "__main__":
    main()
