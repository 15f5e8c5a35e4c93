"""Ensemble over matter densities: python -m pmcosmo.run"""
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from pmcosmo.stepper import ForceSetting, Simulation, Snapshots


def schedule(steps, start=0.1, stop=1.0):
    edges = [start * (stop / start) ** (k / steps) for k in range(steps + 1)]
    for k, (lo, hi) in enumerate(zip(edges, edges[1:])):
        late = k >= steps // 2
        yield ForceSetting(0.02 if late else 0.05, 2 if late else 1), hi - lo


def evolve(sim, steps, snapshots):
    history = []
    for k, (setting, width) in enumerate(schedule(steps)):
        power = sim.step(setting, width)
        history.append(power.clone())
        if k % 4 == 3:
            snapshots.take(sim.pos)
    return torch.stack(history)


def main():
    device = torch.device("cuda")
    sim = Simulation(8, 256, device)
    initial = sim.pos.clone()
    steps = 8
    for omega in (0.25, 0.3, 0.35):
        sim.restart(omega, initial)
        snapshots = Snapshots(steps // 4, initial.shape[0])
        history = evolve(sim, steps, snapshots)
        frames = snapshots.finish()
        drift = (frames[-1] - frames[0]).abs().mean()
        print(f"omega {omega}: growth {(history[-1, 1:].sum() / history[0, 1:].sum()).item():.4f} drift {drift:.4f}")


if __name__ == "__main__":
    main()
