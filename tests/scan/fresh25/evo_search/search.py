"""Restarts with doubled populations; the best point of each restart is kept."""
import argparse
from dataclasses import dataclass

import torch

from .graphs import GraphBook
from .strategy import SearchState


@dataclass(frozen=True)
class Plan:
    landscape: str
    restarts: int = 3
    population: int = 16
    generations: int = 40
    spread: float = 3.0

    def populations(self):
        return [self.population * 2**r for r in range(self.restarts)]


class Search:
    def __init__(self, dim: int, device: torch.device):
        self.state = SearchState(dim, device)
        self.graphs = GraphBook(self.state, device)

    def prepare(self, plans) -> None:
        for plan in plans:
            for population in plan.populations():
                self.graphs.open(population, plan.landscape)

    def run(self, plan: Plan, seed: int):
        points, values = [], []
        for number, population in enumerate(plan.populations()):
            graph = self.graphs.open(population, plan.landscape)
            self.state.restart(seed + number, plan.spread)
            for _ in range(plan.generations):
                graph.replay()
            points.append(self.state.best.clone())
            values.append(self.state.best_value.clone())
        return torch.stack(points), torch.stack(values)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, default=6)
    options = parser.parse_args()
    plans = [Plan("rastrigin"), Plan("rosenbrock", generations=60), Plan("ackley")]
    search = Search(options.dim, torch.device("cuda"))
    search.prepare(plans)
    for seed, plan in enumerate(plans):
        points, values = search.run(plan, 100 * seed)
        print(plan.landscape, [round(v, 5) for v in values.tolist()], "at", round(points.norm().item(), 4))


if __name__ == "__main__":
    main()
