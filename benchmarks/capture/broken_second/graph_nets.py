import torch
import torch.nn.functional as F
from torch import nn


class SageLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.own = nn.Linear(dim, dim)
        self.near = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, adj):
        degree = adj.sum(-1, keepdim=True).clamp_min(1.0)
        return self.norm(h + F.relu(self.own(h) + self.near(adj @ h / degree)))


def build_unique_subgraph(device):
    torch.manual_seed(71)
    table = torch.randn(60, 16, device=device)
    layers = nn.ModuleList([SageLayer(16) for _ in range(2)]).to(device).requires_grad_(False)
    score = nn.Bilinear(16, 16, 1).to(device).requires_grad_(False)
    most = 24

    def step(pairs):
        nodes, local = torch.unique(pairs, return_inverse=True)
        h = F.pad(table[nodes], (0, 0, 0, most - nodes.shape[0]))
        src, dst = local
        adj = torch.zeros(most, most, device=h.device)
        one = torch.ones(src.shape[0], device=h.device)
        adj.index_put_((dst, src), one)
        adj.index_put_((src, dst), one)
        for layer in layers:
            h = layer(h, adj)
        logit = score(h[src], h[dst]).squeeze(-1)
        return logit.sigmoid(), F.softplus(-logit).mean()

    return step, (torch.randint(0, 60, (2, 12), device=device),)


class EdgeThinned(nn.Module):
    def __init__(self, nodes, dim, depth):
        super().__init__()
        self.nodes = nodes
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.message = nn.ModuleList([nn.Linear(dim, dim) for _ in range(depth)])
        self.update = nn.ModuleList([nn.Linear(2 * dim, dim) for _ in range(depth)])
        self.readout = nn.Linear(dim, 4)

    def relevance(self, x, edges):
        q, k = self.query(x), self.key(x)
        return (q[edges[0]] * k[edges[1]]).sum(-1).tanh()

    def gather(self, m, edges):
        return F.one_hot(edges[1], self.nodes).to(m.dtype).t() @ m[edges[0]]

    def forward(self, x, edges):
        rel = self.relevance(x, edges)
        kept = edges[:, rel > -0.2]
        for message, update in zip(self.message, self.update):
            m = F.elu(message(x))
            agg = self.gather(m, kept)
            agg = agg / (1.0 + agg.norm(dim=-1, keepdim=True))
            x = x + torch.tanh(update(torch.cat([x, agg], -1)))
            x = x - x.mean(0)
        pooled = torch.cat([x.mean(0, keepdim=True), x.amax(0, keepdim=True)])
        return self.readout(pooled).log_softmax(-1), rel


def build_edge_thinned(device):
    torch.manual_seed(72)
    model = EdgeThinned(14, 16, 3).to(device).eval().requires_grad_(False)
    edges = torch.randint(0, 14, (2, 40), device=device)
    return model, (torch.randn(14, 16, device=device), edges)


def build_batched_readout(device):
    torch.manual_seed(73)
    graphs, nodes, dim = 4, 20, 12
    enc = nn.Sequential(nn.Linear(dim, 24), nn.ReLU(), nn.Linear(24, dim)).to(device).requires_grad_(False)
    gate = nn.Linear(dim, 1).to(device).requires_grad_(False)
    head = nn.Linear(2 * dim, 3).to(device).requires_grad_(False)

    def assign(counts):
        ids = torch.arange(graphs, device=counts.device)
        owner = torch.repeat_interleave(ids, counts)
        return F.pad(owner, (0, nodes), value=graphs)[:nodes]

    def step(x, counts):
        h = x + enc(x)
        alpha = gate(h).sigmoid()
        owner = assign(counts)
        member = F.one_hot(owner, graphs + 1).to(h.dtype)[:, :graphs]
        total = member.t() @ (h * alpha)
        size = member.sum(0).clamp_min(1.0)
        mean = total / size[:, None]
        hidden = h[None].masked_fill(member.t()[..., None] == 0, -1e4).amax(1).clamp_min(-10)
        logits = head(torch.cat([mean, hidden], -1))
        return logits.softmax(-1), mean, member @ mean - h

    x = torch.randn(nodes, dim, device=device)
    return step, (x, torch.tensor([3, 6, 5, 6], device=device))


class TopKPool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lift = nn.Linear(dim, dim)
        self.conv1 = nn.Linear(dim, dim)
        self.score = nn.Linear(dim, 1)
        self.conv2 = nn.Linear(dim, dim)
        self.head = nn.Sequential(nn.Linear(2 * dim, dim), nn.GELU(), nn.LayerNorm(dim), nn.Linear(dim, 5))

    def normalised(self, adj):
        d = adj.sum(-1).clamp_min(1.0).rsqrt()
        return adj * d[:, None] * d[None]

    def forward(self, x, adj, alive):
        both = alive[:, None] * alive[None]
        prop = self.normalised(adj * both)
        h = F.relu(self.lift(x)) * alive[:, None]
        h = h + F.relu(self.conv1(prop @ h))
        score = torch.tanh(self.score(h).squeeze(-1)) - 10 * (1 - alive)
        k = max(1, int(alive.sum()) // 2)
        top = score.topk(k).indices
        small = h[top] * score[top].sigmoid()[:, None]
        small = F.relu(self.conv2(prop[top][:, top] @ small))
        centre, peak = small.mean(0), small.amax(0)
        whole = (h * alive[:, None]).sum(0) / alive.sum().clamp_min(1.0)
        logits = self.head(torch.cat([centre + whole, peak]))
        return logits.log_softmax(-1)


def build_topk_pool(device):
    torch.manual_seed(74)
    model = TopKPool(16).to(device).eval().requires_grad_(False)
    x = torch.randn(18, 16, device=device)
    adj = (torch.rand(18, 18, device=device) < 0.3).float()
    alive = (torch.rand(18, device=device) < 0.7).float()
    return model, (x, torch.maximum(adj, adj.t()), alive)


def build_farthest_points(device):
    torch.manual_seed(75)
    embed = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 12)).to(device).requires_grad_(False)
    head = nn.Linear(15, 4).to(device).requires_grad_(False)

    def spread(points, m):
        best = points.pow(2).sum(-1)
        chosen = []
        for _ in range(m):
            far = best.argmax()
            anchor = points[far]
            chosen.append(anchor)
            best = torch.minimum(best, (points - anchor).pow(2).sum(-1))
        return torch.stack(chosen)

    def step(points):
        points = points - points.mean(0)
        points = points / points.norm(dim=-1).max().clamp_min(1e-5)
        features = embed(points)
        anchors = spread(points, 4)
        gap = (anchors[:, None] - points[None]).pow(2).sum(-1)
        near = (-8.0 * gap).softmax(-1)
        pooled = near @ features
        logits = head(torch.cat([pooled, anchors], -1))
        return logits.softmax(-1), gap.amin(0).mean()

    return step, (torch.randn(40, 3, device=device),)
