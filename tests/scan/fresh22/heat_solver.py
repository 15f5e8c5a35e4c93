import torch
import torch.nn.functional as F


class Heat:
    def __init__(self, n, device):
        self.u = torch.zeros(1, 1, n, n, device=device)
        self.source = torch.zeros(1, 1, n, n, device=device)
        self.dt = torch.tensor(0.1, device=device)
        self.residual = torch.zeros((), device=device)
        k = torch.tensor([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]], device=device)
        self.kernel = k.view(1, 1, 3, 3)

    def tick(self):
        delta = F.conv2d(self.u, self.kernel, padding=1) + self.source
        self.u.add_(delta * self.dt)
        self.residual.copy_(delta.abs().max())


def main(device="cuda"):
    torch.manual_seed(16)
    heat = Heat(16, device)
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        heat.tick()
    torch.cuda.current_stream().wait_stream(s)
    heat.u.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        heat.tick()
    frames = torch.zeros(5, 16, 16, device=device)
    for block in range(5):
        heat.source.copy_(torch.rand(1, 1, 16, 16, device=device))
        heat.dt.fill_(0.1 / (1 + block))
        for _ in range(20):
            graph.replay()
        frames[block].copy_(heat.u[0, 0])
    print(frames.amax((1, 2)).tolist(), heat.residual.item())


if __name__ == "__main__":
    main()
