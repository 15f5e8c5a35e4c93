import torch
from torch import nn


class Denoiser:
    def __init__(self, device):
        self.net = nn.Sequential(nn.Linear(32, 32), nn.Tanh()).to(device).requires_grad_(False)
        self.block = torch.zeros(1, 32, device=device)
        self.gain = torch.ones((), device=device)
        lane = torch.cuda.Stream()
        lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane):
            self.net(self.block)
        torch.cuda.current_stream().wait_stream(lane)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.result = self.net(self.block) * self.gain

    def __call__(self, block, gain):
        self.block.copy_(block)
        self.gain.fill_(gain)
        self.graph.replay()
        return self.result.clone()


def main(device="cuda"):
    d = Denoiser(device)
    source = torch.randn(4, 1, 32, device=device)
    parts = [d(source[i], 1.0 + 0.1 * i) for i in range(4)]
    print(torch.cat(parts).shape)


if __name__ == "__main__":
    main()
