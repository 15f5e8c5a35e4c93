"""Property prediction for a batch of small molecules with padded edge lists."""
import torch
import torch.nn.functional as F
from torch import nn


class GraphConv(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.own = nn.Linear(width, width)
        self.msg = nn.Linear(width, width, bias=False)

    def forward(self, h, src, dst, weight):
        m = self.msg(h).index_select(0, src) * weight
        agg = torch.zeros_like(h).index_add_(0, dst, m)
        return F.gelu(self.own(h) + agg)


class DegreeScale:
    """Inverse square root of the node degrees."""

    def __init__(self, n_nodes):
        self.n_nodes = n_nodes

    def of(self, dst, edge_ok):
        count = torch.zeros(self.n_nodes, 1, device=dst.device)
        count.index_add_(0, dst, edge_ok)
        return count.clamp(min=1).rsqrt()


class Readout(nn.Module):
    def __init__(self, width, n_out, n_graphs):
        super().__init__()
        self.n_graphs = n_graphs
        self.gate = nn.Linear(2 * width, 1)
        self.head = nn.Linear(width, n_out)

    def forward(self, h, batch):
        pooled = h.new_zeros(self.n_graphs, h.shape[1]).index_add_(0, batch, h)
        context = pooled.index_select(0, batch)
        gate = torch.sigmoid(self.gate(torch.cat([h, context], dim=1)))
        pooled = torch.zeros_like(pooled).index_add_(0, batch, gate * h)
        return self.head(pooled)


class MoleculeNet(nn.Module):
    def __init__(self, n_types, width, depth, n_out, n_nodes, n_graphs):
        super().__init__()
        self.embed = nn.Embedding(n_types, width)
        self.layers = nn.ModuleList(GraphConv(width) for _ in range(depth))
        self.readout = Readout(width, n_out, n_graphs)
        self.degree = DegreeScale(n_nodes)

    def forward(self, types, src, dst, edge_ok, batch):
        h = self.embed(types)
        ok = edge_ok.to(h.dtype)[:, None]
        weight = ok * self.degree.of(dst, ok).index_select(0, src)
        for layer in self.layers:
            h = h + layer(h, src, dst, weight)
        return self.readout(h, batch)


def molecules(n_graphs, per_graph, max_edges, device):
    n = n_graphs * per_graph
    batch = torch.arange(n_graphs, device=device).repeat_interleave(per_graph)
    same = batch[:, None] == batch[None, :]
    adj = same & (torch.rand(n, n, device=device) < 0.4)
    edges = adj.nonzero()[:max_edges]
    src = torch.zeros(max_edges, dtype=torch.int64, device=device)
    dst = torch.zeros(max_edges, dtype=torch.int64, device=device)
    edge_ok = torch.zeros(max_edges, dtype=torch.bool, device=device)
    src[: len(edges)] = edges[:, 0]
    dst[: len(edges)] = edges[:, 1]
    edge_ok[: len(edges)] = True
    types = torch.randint(0, 9, (n,), device=device)
    return types, src, dst, edge_ok, batch


def build(device):
    torch.manual_seed(21)
    model = MoleculeNet(9, 32, 3, 2, n_nodes=48, n_graphs=6).to(device).eval()
    model.requires_grad_(False)
    return model, molecules(6, 8, 256, device)
