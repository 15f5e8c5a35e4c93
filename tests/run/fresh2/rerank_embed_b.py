"""Retrieval: a re-ranking runner and an embedding runner captured into one shared pool."""
import torch

DEV = torch.device("cuda")
ROWS, DIM, WIDE = 32, 128, 256


def rand(rows, cols, seed):
    gen = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, cols, generator=gen) / rows ** 0.5).to(DEV)


class Runner:
    def __init__(self, fn, pool, stream):
        self.fn = fn
        self.x = torch.zeros(ROWS, DIM, device=DEV)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                fn(self.x)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool, stream=stream):
            self.y = fn(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y


class Reranker:
    def __init__(self):
        self.up, self.mid, self.down = rand(DIM, WIDE, 1), rand(WIDE, WIDE, 2), rand(WIDE, 1, 3)

    def __call__(self, x):
        h = torch.relu(x @ self.up)
        h = torch.relu(h @ self.mid)
        return torch.sigmoid(h @ self.down)


class Embedder:
    def __init__(self):
        self.w = rand(DIM, WIDE, 4)

    def __call__(self, x):
        return x @ self.w


@torch.no_grad()
def main():
    pool = torch.cuda.graph_pool_handle()
    stream = torch.cuda.Stream()
    rerank = Runner(Reranker(), pool, stream)
    embed = Runner(Embedder(), pool, stream)
    gen = torch.Generator(device=DEV).manual_seed(33)
    pooled = torch.zeros(WIDE, device=DEV)
    for _ in range(14):
        x = torch.randn(ROWS, DIM, device=DEV, generator=gen)
        vectors = embed(x)
        weights = rerank(x)
        pooled += (weights * vectors).mean(0)
    print(round(float(pooled.norm()), 5))


if __name__ == "__main__":
    main()
