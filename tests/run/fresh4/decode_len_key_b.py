"""Batched decode over a static KV cache, graphs in a dictionary."""
import torch

DIM, MAX_LEN, MAX_BATCH = 32, 128, 4


def bucket(length):
    size = 16
    while size < length:
        size *= 2
    return size


class Runner:
    def __init__(self, device):
        self.device = device
        self.w = torch.randn(DIM, 3 * DIM, device=device) * DIM ** -0.5
        self.k = torch.zeros(MAX_BATCH, MAX_LEN, DIM, device=device)
        self.v = torch.zeros(MAX_BATCH, MAX_LEN, DIM, device=device)
        self.x = torch.zeros(MAX_BATCH, DIM, device=device)
        self.pos = torch.zeros(MAX_BATCH, dtype=torch.long, device=device)
        self.columns = torch.arange(MAX_LEN, device=device)
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs = {}

    def forward(self, batch, limit):
        q, k, v = (self.x[:batch] @ self.w).chunk(3, -1)
        pos = self.pos[:batch]
        where = pos.view(batch, 1, 1).expand(batch, 1, DIM)
        self.k[:batch].scatter_(1, where, k.unsqueeze(1))
        self.v[:batch].scatter_(1, where, v.unsqueeze(1))
        keys, values = self.k[:batch, :limit], self.v[:batch, :limit]
        scores = (keys @ q.unsqueeze(-1)).squeeze(-1) * DIM ** -0.5
        scores = scores.masked_fill(self.columns[:limit] > pos.unsqueeze(1), -1e9)
        return (scores.softmax(-1).unsqueeze(1) @ values).squeeze(1)

    def capture(self, batch, limit):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.forward(batch, limit)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            out = self.forward(batch, limit)
        return graph, out

    def decode(self, x, longest):
        batch, limit = x.shape[0], bucket(longest)
        self.x[:batch].copy_(x)
        key = (batch, limit)
        if key not in self.graphs:
            self.graphs[key] = self.capture(batch, limit)
        graph, out = self.graphs[key]
        graph.replay()
        self.pos[:batch] += 1
        return torch.tanh(out)


@torch.no_grad()
def main():
    device = torch.device("cuda")
    torch.manual_seed(14)
    runner = Runner(device)
    for batch, steps in ((2, 60), (4, 100)):
        runner.pos.zero_()
        x = torch.randn(batch, DIM, device=device)
        for length in range(1, steps + 1):
            x = runner.decode(x, length) + 0.1 * torch.randn(batch, DIM, device=device)
        print(f"batch {batch}: {steps} tokens, norm {x.norm().item():.4f}")


if __name__ == "__main__":
    main()
