import torch
from torch import nn


class FrameFilter:
    def __init__(self, device):
        self.net = nn.Conv2d(3, 3, 3, padding=1).to(device).requires_grad_(False)
        self.frame = torch.zeros(1, 3, 16, 16, device=device)
        self.gain = 1.0
        lane = torch.cuda.Stream()
        lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane):
            self.net(self.frame)
        torch.cuda.current_stream().wait_stream(lane)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.result = self.net(self.frame) * self.gain

    def __call__(self, frame):
        self.frame.copy_(frame)
        self.graph.replay()
        return self.result


def main(device="cuda"):
    f = FrameFilter(device)
    last = None
    for i in range(4):
        f.gain = 1.0 + 0.25 * i
        now = f(torch.rand(1, 3, 16, 16, device=device))
        if last is not None:
            print((now - last).abs().mean())
        last = now


if __name__ == "__main__":
    main()
