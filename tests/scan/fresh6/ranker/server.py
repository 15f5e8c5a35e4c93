"""Request handling: padding to a bucket, refilling the inputs, replaying."""
from dataclasses import dataclass

import torch

BUCKETS = (64, 256, 1024)


@dataclass
class Request:
    user: torch.Tensor
    item: torch.Tensor
    dense: torch.Tensor
    blocked: torch.Tensor
    surface: str

    def __len__(self):
        return self.item.shape[0]


class Slot:
    """One captured size with its own input buffers."""

    refill = ("user", "item", "dense")

    def __init__(self, size, n_dense, device):
        self.user = torch.zeros(size, dtype=torch.int64, device=device)
        self.item = torch.zeros(size, dtype=torch.int64, device=device)
        self.dense = torch.zeros(size, n_dense, device=device)
        self.blocked = torch.zeros(size, dtype=torch.bool, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.score = None

    def load(self, req):
        n = len(req)
        for name in self.refill:
            buf = getattr(self, name)
            buf[:n].copy_(getattr(req, name))
            buf[n:].zero_()


class RankServer:
    def __init__(self, model, n_dense, device):
        self.model = model.eval()
        self.n_dense = n_dense
        self.device = device
        self.slots = {}

    @torch.no_grad()
    def _capture(self, size, req):
        slot = Slot(size, self.n_dense, self.device)
        slot.load(req)
        slot.blocked[: len(req)].copy_(req.blocked)
        inputs = (slot.user, slot.item, slot.dense, slot.blocked, req.surface)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.model(*inputs)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(slot.graph):
            slot.score = self.model(*inputs)
        return slot

    def _slot(self, req):
        size = next(b for b in BUCKETS if b >= len(req))
        if size not in self.slots:
            self.slots[size] = self._capture(size, req)
        return self.slots[size]

    def rank(self, req, k=10):
        slot = self._slot(req)
        slot.load(req)
        slot.graph.replay()
        order = slot.score[: len(req)].argsort(descending=True)
        best = []
        for place in range(min(k, len(req))):
            best.append(req.item[order[place]].item())
        return best
