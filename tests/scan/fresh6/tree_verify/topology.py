"""Shape of a token tree: known when the engine starts, the same in every round."""
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Topology:
    parents: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.parents)

    def path(self, node: int) -> list[int]:
        steps = []
        while node >= 0:
            steps.append(node)
            node = self.parents[node]
        return steps[::-1]

    def mask(self) -> torch.Tensor:
        seen = torch.zeros(self.size, self.size, dtype=torch.bool)
        for node in range(self.size):
            seen[node, self.path(node)] = True
        return seen

    def paths(self) -> torch.Tensor:
        """Every root-to-leaf path, padded with its leaf."""
        leaves = [n for n in range(self.size) if n not in self.parents]
        routes = [self.path(leaf) for leaf in leaves]
        depth = max(len(r) for r in routes)
        return torch.tensor([r + r[-1:] * (depth - len(r)) for r in routes])

    def lengths(self) -> torch.Tensor:
        leaves = [n for n in range(self.size) if n not in self.parents]
        return torch.tensor([len(self.path(leaf)) for leaf in leaves])


MEDUSA = Topology(parents=(-1, 0, 0, 0, 1, 1, 2, 4, 4, 6))
