"""Predictive uncertainty by repeated stochastic passes of one captured forward."""
import torch
from torch import nn


class Regressor(nn.Module):
    def __init__(self, d=10, width=32, p=0.2):
        super().__init__()
        self.l1, self.l2, self.out = nn.Linear(d, width), nn.Linear(width, width), nn.Linear(width, 1)
        self.drop = nn.Dropout(p)

    def forward(self, x, gen):
        h = self.drop(torch.relu(self.l1(x)))
        h = self.drop(torch.relu(self.l2(h)))
        jitter = torch.empty_like(h).normal_(generator=gen)
        return self.out(h + 0.01 * jitter)


class Ensemble:
    def __init__(self, net, batch, d, device, seed=0):
        self.net, self.device = net, device
        self.x = torch.zeros(batch, d, device=device)
        self.noise = torch.Generator(device=device).manual_seed(seed)
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.noise)
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                net(self.x, self.noise)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph, stream=side):
            self.y = net(self.x, self.noise)

    def draw(self):
        self.graph.replay()
        return self.y

    def spread(self, x, passes, seed=7):
        self.x.copy_(x)
        samples = []
        for _ in range(passes):
            torch.manual_seed(seed)
            samples.append(self.draw().clone())
        stacked = torch.stack(samples)
        return stacked.mean(0), stacked.std(0)

    def quantiles(self, x, passes, levels):
        self.x.copy_(x)
        draws = torch.stack([self.draw() for _ in range(passes)])
        return torch.quantile(draws, levels, dim=0)

    def point(self, x):
        self.net.eval()
        self.x.copy_(x)
        value = self.draw().clone()
        self.net.train()
        return value

    def restart(self, seed):
        self.noise = torch.Generator(device=self.device).manual_seed(seed)


def main(device="cuda"):
    torch.manual_seed(1)
    device = torch.device(device)
    net = Regressor().to(device).train()
    levels = torch.tensor([0.05, 0.5, 0.95], device=device)
    with torch.no_grad():
        ens = Ensemble(net, 6, 10, device)
        x = torch.randn(6, 10, device=device)
        mean, std = ens.spread(x, 12)
        ens.restart(99)
        bands = ens.quantiles(x, 12, levels)
        best = ens.point(x)
    print("std", std.mean().item())
    print("band", (bands[2] - bands[0]).mean().item())
    print("point", (best - mean).abs().mean().item())


if __name__ == "__main__":
    main()
