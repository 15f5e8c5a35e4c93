"""Recommendation inference: the loader puts each batch into a dict of buffers."""
import torch
import torch.nn as nn

import graphsafe


class DLRM(nn.Module):
    def __init__(self, tables=3, rows=40, dim=8, dense=5):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(dense, 16), nn.ReLU(), nn.Linear(16, dim))
        self.tables = nn.ModuleList(nn.Embedding(rows, dim) for _ in range(tables))
        n = tables + 1
        self.register_buffer("pairs", torch.triu_indices(n, n, 1), persistent=False)
        self.top = nn.Sequential(nn.Linear(dim + n * (n - 1) // 2, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense, sparse):
        d = self.bottom(dense)
        feats = torch.stack([d] + [t(sparse[:, i]) for i, t in enumerate(self.tables)], dim=1)
        inter = torch.bmm(feats, feats.transpose(1, 2))
        flat = inter[:, self.pairs[0], self.pairs[1]]
        return torch.sigmoid(self.top(torch.cat([d, flat], dim=1)))


class Server:
    def __init__(self, device, batch=6):
        self.device, self.batch = device, batch
        self.model = DLRM().to(device).eval().requires_grad_(False)
        self.buffers = {}
        self.load()

    def load(self):
        self.buffers["dense"] = torch.randn(self.batch, 5).to(self.device)
        self.buffers["sparse"] = torch.randint(40, (self.batch, 3)).to(self.device)

    def predict(self):
        return self.model(self.buffers["dense"], self.buffers["sparse"])


def build(device):
    torch.manual_seed(24)
    server = Server(device)
    return graphsafe.Step(server.predict, (), refresh=lambda args, kwargs, k: server.load())
