from __future__ import annotations

import torch

from . import ops


class EdgeView:
    """A sorted view of an edge list with the quantities the layers ask for."""

    def __init__(self, edge_index: torch.Tensor, rows: int):
        order = edge_index[1].argsort(stable=True)
        self.src = edge_index[0][order]
        self.dst = edge_index[1][order]
        self.rows = rows
        self.counts = ops.in_degree(self.dst, rows)

    @property
    def widest(self) -> int:
        return int(self.counts.max())

    @property
    def temperature(self) -> float:
        return 1.0 / max(1, self.widest)


class NormCache:
    def __init__(self):
        self._seen: tuple[int, int] | None = None
        self._norm: torch.Tensor | None = None

    def lookup(self, edge_index: torch.Tensor, view: EdgeView) -> torch.Tensor:
        tag = (edge_index.data_ptr(), edge_index._version)
        if self._seen != tag:
            self._norm = ops.sym_norm(view.counts, view.src, view.dst)
            self._seen = tag
        return self._norm
