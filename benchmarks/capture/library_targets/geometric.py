"""Steps of graph neural networks, as the examples of torch_geometric write them."""

import torch
import torch.nn.functional as F
from torch import nn


def graph(device, nodes=64, edges=512, width=16):
    return torch.randn(nodes, width, device=device), torch.randint(0, nodes, (2, edges), device=device)


def convolutions(kind, **options):
    from torch_geometric import nn as pyg

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = getattr(pyg, kind)(16, 32, **options)
            self.conv2 = getattr(pyg, kind)(32, 8, **options)

        @torch.no_grad()
        def forward(self, x, edge_index):
            x = F.relu(self.conv1(x, edge_index))
            return F.log_softmax(self.conv2(x, edge_index), dim=-1)

    return Net()


def gcn(device):
    return convolutions("GCNConv").to(device).eval(), graph(device)


def gcn_normalized_before(device):
    return convolutions("GCNConv", normalize=False).to(device).eval(), graph(device)


def sage(device):
    return convolutions("SAGEConv").to(device).eval(), graph(device)


def gat(device):
    return convolutions("GATConv").to(device).eval(), graph(device)


def gatv2_without_loops(device):
    return convolutions("GATv2Conv", add_self_loops=False).to(device).eval(), graph(device)


def graph_transformer(device):
    return convolutions("TransformerConv").to(device).eval(), graph(device)


class Classifier(nn.Module):
    """Graph classification: a convolution, a pooled vector for each graph, and a linear layer."""

    def __init__(self, graphs):
        from torch_geometric.nn import GINConv

        super().__init__()
        self.conv = GINConv(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32)))
        self.head = nn.Linear(32, 4)
        self.graphs = graphs

    @torch.no_grad()
    def forward(self, x, edge_index, batch):
        from torch_geometric.nn import global_mean_pool

        x = self.conv(x, edge_index).relu()
        return self.head(global_mean_pool(x, batch, size=self.graphs))


def classifier(graphs):
    def build(device):
        batch = torch.arange(4, device=device).repeat_interleave(16)
        return Classifier(graphs).to(device).eval(), (*graph(device), batch)

    return build


pooled_graphs = classifier(None)
pooled_graphs_of_known_number = classifier(4)


def change_graphs(args, kwargs, k):
    args[0].normal_()
    args[1].random_(0, args[0].shape[0])
    args[2].copy_((torch.arange(64) * (5 + k % 3) // 110).clamp(max=3))


def sage_training(device):
    model = convolutions("SAGEConv").to(device).train()
    forward = type(model).forward.__wrapped__
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, capturable=True)

    def step(x, edge_index, y):
        optimizer.zero_grad()
        loss = F.nll_loss(forward(model, x, edge_index), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (*graph(device), torch.randint(0, 8, (64,), device=device))


CHANGE = {"pooled_graphs": change_graphs, "pooled_graphs_of_known_number": change_graphs}
