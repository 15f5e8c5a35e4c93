import torch


class LayerStore:
    """Keys and values of a layer, bounded to the newest ``limit`` entries when read."""

    def __init__(self, heads, dim, limit):
        self.heads, self.dim, self.limit = heads, dim, limit
        self.k = None
        self.v = None

    @property
    def length(self):
        return 0 if self.k is None else self.k.shape[1]

    def append(self, k, v):
        if self.k is None:
            self.k = k.new_zeros(self.heads, 1, self.dim)
            self.v = v.new_zeros(self.heads, 1, self.dim)
        self.k = torch.cat([self.k, k], dim=1)
        self.v = torch.cat([self.v, v], dim=1)
        return self.k[:, -self.limit:], self.v[:, -self.limit:]


class StoreRegistry:
    def __init__(self, layers, heads, dim, limit):
        self._stores = {i: LayerStore(heads, dim, limit) for i in range(layers)}

    def __getitem__(self, i):
        return self._stores[i]

    def clear(self):
        for s in self._stores.values():
            s.k = s.v = None
