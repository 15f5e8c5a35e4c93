"""Feature server: rows are gathered into a pinned page, the upload is part of the graph."""
import torch

ROWS, FEATURES, HIDDEN = 256, 64, 1024


class FeatureServer:
    def __init__(self, store, device):
        self.store = store
        self.page = torch.zeros(ROWS, FEATURES, pin_memory=True)
        self.x = torch.zeros(ROWS, FEATURES, device=device)
        self.w1 = torch.randn(FEATURES, HIDDEN, device=device) * 0.1
        self.w2 = torch.randn(HIDDEN, HIDDEN, device=device) * 0.04
        self.w3 = torch.randn(HIDDEN, 1, device=device) * 0.1
        self.total = torch.zeros(ROWS, 1, device=device)
        self.done = torch.cuda.Event()
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    def _forward(self):
        self.x.copy_(self.page, non_blocking=True)
        h = torch.relu(self.x @ self.w1)
        for _ in range(8):
            h = torch.relu(h @ self.w2)
        return torch.sigmoid(h @ self.w3)

    def _capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._forward()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.scores = self._forward()
        self.done.record()

    def score(self, ids):
        self.done.synchronize()
        self.page.copy_(self.store.index_select(0, ids))
        self.graph.replay()
        self.done.record()
        self.total.add_(self.scores)

    def close(self):
        self.done.synchronize()
        return self.total.mean().item()


@torch.no_grad()
def main():
    device = torch.device("cuda")
    torch.manual_seed(8)
    store = torch.randn(4096, FEATURES)
    server = FeatureServer(store, device)
    traffic = torch.Generator().manual_seed(9)
    requests = 50
    for _ in range(requests):
        ids = torch.randint(0, store.shape[0], (ROWS,), generator=traffic)
        server.score(ids)
    print(f"{requests} requests, mean score sum {server.close():.4f}")


if __name__ == "__main__":
    main()
