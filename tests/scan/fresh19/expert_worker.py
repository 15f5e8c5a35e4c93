import torch
from torch import nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, d, f):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(f, d) / d ** 0.5)
        self.w2 = nn.Parameter(torch.randn(d, f) / f ** 0.5)

    def forward(self, x):
        return F.silu(x @ self.w1.T) @ self.w2.T


class ExpertLayer(nn.Module):
    def __init__(self, d, f, n, top):
        super().__init__()
        self.experts = nn.ModuleList(Expert(d, f) for _ in range(n))
        self.gate = nn.Linear(d, n, bias=False)
        self.register_buffer("bias", torch.zeros(n))
        self.top = top
        self.capacity = 2

    def forward(self, x):
        probs = self.gate(x).softmax(-1)
        chosen = (probs + self.bias).topk(self.top, dim=-1).indices
        onehot = torch.zeros_like(probs).scatter_(1, chosen, 1.0)
        rank = onehot.cumsum(0) - 1
        keep = onehot * (rank < self.capacity)
        slots = rank.clamp(0, self.capacity - 1).long()
        y = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            box = x.new_zeros(self.capacity, x.shape[1])
            box.index_add_(0, slots[:, e], x * keep[:, e : e + 1])
            y = y + expert(box)[slots[:, e]] * (keep * probs)[:, e : e + 1]
        return x + y, onehot.sum(0)


class Worker:
    def __init__(self, layer, rows, dim, device):
        self.layer = layer
        self.x = torch.zeros(rows, dim, device=device)
        self.stream = torch.cuda.Stream(device)
        self.seen = 0.0

    @torch.no_grad()
    def capture(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.layer(self.x)
        torch.cuda.current_stream().wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                self.y, self.load = self.layer(self.x)
        except RuntimeError:
            graph = None
        self.graph = graph

    @torch.no_grad()
    def rebalance(self, rate):
        load = self.load.cpu()
        busiest = load.max().item()
        self.layer.capacity = max(self.layer.capacity, int(1.25 * busiest))
        step = rate * (self.load.mean() - self.load).sign()
        self.layer.bias.add_(step)

    def reload(self, index, state):
        expert = self.layer.experts[index]
        for name in ("w1", "w2"):
            setattr(expert, name, nn.Parameter(state[name]))

    def step(self, x):
        self.x.copy_(x)
        if self.graph is None:
            with torch.no_grad():
                self.y, self.load = self.layer(self.x)
        else:
            self.graph.replay()
        y = self.y.clone()
        self.rebalance(0.01)
        return y


def main():
    device = torch.device("cuda")
    torch.manual_seed(12)
    worker = Worker(ExpertLayer(8, 16, 4, 2).to(device), rows=8, dim=8, device=device)
    worker.capture()
    norms = []
    for i in range(10):
        norms.append(worker.step(torch.randn(8, 8, device=device)).norm())
        if i in (3, 6):
            other = Expert(8, 16).to(device)
            worker.reload(i % 4, {k: v.detach() for k, v in other.named_parameters()})
    print(torch.stack(norms).tolist(), worker.layer.capacity)


if __name__ == "__main__":
    main()
