"""Multi-adapter inference: every adapter sits in one stacked bank, requests carry an adapter row."""
import torch
from torch import nn


class BankedLinear(nn.Module):
    def __init__(self, d_in, d_out, slots, rank):
        super().__init__()
        self.proj = nn.Linear(d_in, d_out)
        self.register_buffer("down", torch.zeros(slots, d_in, rank))
        self.register_buffer("up", torch.zeros(slots, rank, d_out))
        self.register_buffer("scale", torch.zeros(slots, 1))

    def forward(self, x, which):
        low = torch.bmm(x[:, None], self.down.index_select(0, which))
        delta = torch.bmm(low, self.up.index_select(0, which)).squeeze(1)
        return self.proj(x) + self.scale.index_select(0, which) * delta

    def load(self, slot, down, up, scale):
        self.down[slot].copy_(down)
        self.up[slot].copy_(up)
        self.scale[slot].fill_(scale)


class Classifier(nn.Module):
    def __init__(self, dim=16, slots=3, rank=2):
        super().__init__()
        self.first = BankedLinear(dim, dim, slots, rank)
        self.second = BankedLinear(dim, 5, slots, rank)

    def forward(self, x, which):
        return self.second(torch.tanh(self.first(x, which)), which)


class Service:
    def __init__(self, device, batch=6):
        self.model = Classifier().to(device).eval()
        self.x = torch.zeros(batch, 16, device=device)
        self.which = torch.zeros(batch, dtype=torch.long, device=device)
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            self.model(self.x, self.which)
            self.model(self.x, self.which)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=warm):
            self.out = self.model(self.x, self.which)

    def hot_load(self, slot, seed):
        gen = torch.Generator(device=self.x.device).manual_seed(seed)
        for layer in (self.model.first, self.model.second):
            down = torch.randn(layer.down.shape[1:], generator=gen, device=self.x.device)
            up = torch.randn(layer.up.shape[1:], generator=gen, device=self.x.device)
            layer.load(slot, down, up, 1.0 / (1 + seed))

    def __call__(self, x, which):
        n = x.shape[0]
        self.x[:n].copy_(x)
        self.which[:n].copy_(which)
        self.graph.replay()
        return self.out[:n].clone()


def main(device="cuda"):
    torch.manual_seed(2)
    with torch.inference_mode():
        service = Service(torch.device(device))
        kept = []
        for turn in range(8):
            service.hot_load(turn % 3, seed=turn)
            n = 1 + turn % 6
            x = torch.randn(n, 16, device=device)
            kept.append(service(x, torch.arange(n, device=device) % 3))
    print([round(k.abs().sum().item(), 3) for k in kept])


if __name__ == "__main__":
    main()
