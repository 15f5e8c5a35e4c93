import functools

import torch
from torch import nn


@functools.lru_cache(maxsize=2)
def blend_window(height: int, width: int, device: torch.device) -> torch.Tensor:
    y = torch.hann_window(height, periodic=False, device=device)
    x = torch.hann_window(width, periodic=False, device=device)
    return 0.1 + 0.9 * y[:, None] * x[None, :]


class Restorer(nn.Module):
    def __init__(self, width: int = 12):
        super().__init__()
        self.enter = nn.Conv2d(6, width, 3, padding=1)
        self.leave = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, frame, previous, strength):
        h = torch.relu(self.enter(torch.cat([frame, previous], 1)))
        window = blend_window(frame.shape[2], frame.shape[3], frame.device)
        return frame + strength * self.leave(h) * window


class Runner:
    def __init__(self, net: Restorer, device: torch.device):
        self.net, self.device = net, device
        self.plans = {}
        self.lane = torch.cuda.Stream(device)
        self.shared_out = torch.zeros(1, 3, 12, 12, device=device)

    @torch.no_grad()
    def plan(self, height, width, strength):
        frame = torch.zeros(1, 3, height, width, device=self.device)
        previous = torch.zeros_like(frame)
        target = self.shared_out[:, :, :height, :width]

        def restore():
            target.copy_(self.net(frame, previous, strength))
            previous.copy_(target)

        self.lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.lane):
            restore()
        torch.cuda.current_stream().wait_stream(self.lane)
        previous.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.lane):
            restore()
        return graph, frame, previous, target

    def frame(self, image, strength):
        key = image.shape[-2:]
        if key not in self.plans:
            self.plans[key] = self.plan(*key, strength)
        graph, frame, _, out = self.plans[key]
        frame.copy_(image)
        graph.replay()
        return out

    def cut(self):
        for key, (graph, frame, _, out) in self.plans.items():
            self.plans[key] = (graph, frame, torch.zeros_like(frame), out)


def side_by_side(runner, big, small, strength):
    left = runner.frame(big, strength)
    right = runner.frame(small, strength)
    return left[:, :, : right.shape[2], : right.shape[3]] - right


def main():
    device = torch.device("cuda")
    torch.manual_seed(30)
    runner = Runner(Restorer().to(device).eval(), device)
    gaps = []
    for scene, strength in enumerate((0.5, 0.8, 1.0)):
        for _ in range(4):
            big = torch.rand(1, 3, 12, 12, device=device)
            small = torch.rand(1, 3, 8 + 2 * (scene % 2), 8, device=device)
            gaps.append(side_by_side(runner, big, small, strength).abs().mean())
        runner.cut()
    print(torch.stack(gaps).tolist())


if __name__ == "__main__":
    main()
