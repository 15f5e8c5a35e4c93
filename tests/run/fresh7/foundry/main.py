"""Paged attention: a planner lays out pages in a workspace, kernels read it."""
import torch

PAGES, PAGE, WIDTH, BATCH, MAXP = 64, 8, 32, 4, 6


class Workspace:
    """One integer arena for a device, shared by prefill and decode."""

    def __init__(self, device, slots):
        self.device = device
        self.arena = torch.zeros(slots, dtype=torch.long, device=device)

    def reserve(self, slots):
        if slots > self.arena.numel():
            grown = torch.zeros(2 * slots, dtype=torch.long, device=self.device)
            grown[: self.arena.numel()].copy_(self.arena)
            self.arena = grown
        return self.arena[:slots]


class PagedCache:
    def __init__(self, device):
        self.keys = torch.randn(PAGES, PAGE, WIDTH).to(device)
        self.values = torch.randn(PAGES, PAGE, WIDTH).to(device)

    def attend(self, query, table):
        rows = table.reshape(-1).clamp(0, PAGES - 1)
        k = self.keys.index_select(0, rows).view(query.shape[0], -1, WIDTH)
        v = self.values.index_select(0, rows).view(query.shape[0], -1, WIDTH)
        w = torch.softmax((k * query[:, None]).sum(-1) / WIDTH ** 0.5, -1)
        return (w[..., None] * v).sum(1)


class Prefill:
    def __init__(self, cache, space):
        self.cache, self.space = cache, space

    def run(self, query, pages):
        need = query.shape[0] * pages.shape[1]
        table = self.space.reserve(need).view(query.shape[0], -1)
        table.copy_(pages)
        return self.cache.attend(query, table)


class Decode:
    def __init__(self, cache, space, device):
        self.cache, self.space = cache, space
        self.query = torch.zeros(BATCH, WIDTH, device=device)
        self.out = torch.zeros(BATCH, WIDTH, device=device)
        self.graph = None

    def body(self):
        table = self.space.reserve(BATCH * MAXP).view(BATCH, MAXP)
        self.out.copy_(self.cache.attend(self.query, table))

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.body()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.body()

    def plan(self, pages):
        self.space.reserve(BATCH * MAXP).view(BATCH, MAXP).copy_(pages)

    def run(self, query):
        self.query.copy_(query)
        self.graph.replay()
        return self.out


@torch.no_grad()
def main():
    torch.manual_seed(3)
    device = torch.device("cuda")
    cache, space = PagedCache(device), Workspace(device, BATCH * MAXP)
    prefill, decode = Prefill(cache, space), Decode(cache, space, device)
    decode.capture()
    queries = torch.randn(60, BATCH, WIDTH).to(device)
    layouts = torch.randint(0, PAGES, (60, BATCH, MAXP)).to(device)
    prompts = torch.randint(0, PAGES, (3, 12)).to(device)
    acc = torch.zeros((), device=device)
    for i in range(60):
        if i % 20 == 15:
            rows = 2 if i < 20 else 3
            acc.add_(prefill.run(queries[i, :rows], prompts[:rows]).mean())
        decode.plan(layouts[i])
        acc.add_(decode.run(queries[i]).square().mean())
    print(f"steps 60 acc {acc.item():.4f}")


if __name__ == "__main__":
    main()
