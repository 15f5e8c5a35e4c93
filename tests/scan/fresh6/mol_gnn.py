"""Property prediction for a batch of small molecules given as one adjacency matrix."""
import torch
import torch.nn.functional as F
from torch import nn


class GraphConv(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.own = nn.Linear(width, width)
        self.msg = nn.Linear(width, width, bias=False)

    def forward(self, h, src, dst, scale):
        m = self.msg(h).index_select(0, src) * scale.index_select(0, src)
        agg = torch.zeros_like(h).index_add_(0, dst, m)
        return F.gelu(self.own(h) + agg)


class DegreeScale:
    """Inverse square root of the node degrees."""

    def __init__(self):
        self._value = None

    def of(self, adj):
        if self._value is None:
            self._value = adj.sum(dim=1, keepdim=True).clamp(min=1).float().rsqrt()
        return self._value


class Readout(nn.Module):
    def __init__(self, width, n_out):
        super().__init__()
        self.gate = nn.Linear(2 * width, 1)
        self.head = nn.Linear(width, n_out)

    def forward(self, h, batch, sizes):
        n_graphs = int(batch[-1]) + 1
        pooled = h.new_zeros(n_graphs, h.shape[1]).index_add_(0, batch, h)
        context = torch.repeat_interleave(pooled, sizes, dim=0)
        gate = torch.sigmoid(self.gate(torch.cat([h, context], dim=1)))
        pooled = torch.zeros_like(pooled).index_add_(0, batch, gate * h)
        return self.head(pooled)


class MoleculeNet(nn.Module):
    def __init__(self, n_types, width, depth, n_out):
        super().__init__()
        self.embed = nn.Embedding(n_types, width)
        self.layers = nn.ModuleList(GraphConv(width) for _ in range(depth))
        self.readout = Readout(width, n_out)
        self.degree = DegreeScale()

    def forward(self, types, adj, batch, sizes):
        h = self.embed(types)
        src, dst = adj.nonzero(as_tuple=True)
        scale = self.degree.of(adj)
        for layer in self.layers:
            h = h + layer(h, src, dst, scale)
        return self.readout(h, batch, sizes)


def molecules(n_graphs, per_graph, device):
    n = n_graphs * per_graph
    batch = torch.arange(n_graphs, device=device).repeat_interleave(per_graph)
    same = batch[:, None] == batch[None, :]
    adj = same & (torch.rand(n, n, device=device) < 0.4)
    types = torch.randint(0, 9, (n,), device=device)
    sizes = torch.full((n_graphs,), per_graph, device=device)
    return types, adj, batch, sizes


def build(device):
    torch.manual_seed(21)
    model = MoleculeNet(9, 32, 3, 2).to(device).eval().requires_grad_(False)
    return model, molecules(6, 8, device)
