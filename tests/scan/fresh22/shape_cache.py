import torch
from torch import nn


class GraphCache:
    def __init__(self, net, device):
        self.net, self.device, self.pool = net, device, {}

    @torch.no_grad()
    def warm(self, sizes, scales):
        for n in sizes:
            for scale in scales:
                x = torch.zeros(n, 8, device=self.device)
                s = torch.cuda.Stream()
                s.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(s):
                    self.net(x)
                torch.cuda.current_stream().wait_stream(s)
                g = torch.cuda.CUDAGraph()
                with torch.cuda.graph(g):
                    y = self.net(x) * scale
                self.pool[n, scale] = g, x, y

    def __call__(self, x, scale):
        rows = x.shape[0]
        n = min(k for k, s in self.pool if k >= rows and s == scale)
        g, buf, y = self.pool[n, scale]
        buf[:rows].copy_(x)
        buf[rows:].zero_()
        g.replay()
        return y[:rows].clone()


def main(device="cuda"):
    torch.manual_seed(4)
    cache = GraphCache(nn.Linear(8, 3).to(device), device)
    cache.warm((2, 4, 8), (1.0, 2.0))
    kept = []
    for rows in (1, 2, 3, 4, 6, 8):
        for scale in (1.0, 2.0):
            kept.append(cache(torch.randn(rows, 8, device=device), scale))
    print(torch.cat(kept).sum().item())


if __name__ == "__main__":
    main()
