"""Two-tier mixture: a shared expert and routed experts overlap on two streams inside one graph."""
import os
import time

import torch
import torch.nn as nn


class Expert(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.a, self.b = nn.Linear(d, hidden), nn.Linear(hidden, d)

    def forward(self, x):
        return self.b(nn.functional.silu(self.a(x)))


class Mixture(nn.Module):
    def __init__(self, d=128, hidden=256, experts=4):
        super().__init__()
        self.router = nn.Linear(d, experts, bias=False)
        self.shared = Expert(d, hidden)
        self.routed = nn.ModuleList(Expert(d, hidden) for _ in range(experts))

    def route(self, x):
        weight, choice = self.router(x).softmax(-1).max(-1)
        return weight, choice

    def dispatch(self, x, weight, choice):
        out = torch.zeros_like(x)
        for i, e in enumerate(self.routed):
            rows = torch.nonzero(choice == i).squeeze(-1)
            out.index_add_(0, rows, e(x.index_select(0, rows)) * weight.index_select(0, rows).unsqueeze(-1))
        return out


class Telemetry:
    def __init__(self, experts, device):
        self.load = torch.zeros(experts, device=device)
        self.stream = torch.cuda.Stream(device)

    def observe(self, choice):
        main = torch.cuda.current_stream(choice.device)
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            hits = nn.functional.one_hot(choice, self.load.numel()).float().sum(0)
            self.load.mul_(0.99).add_(hits, alpha=0.01)


class MixtureRunner:
    def __init__(self, net, rows, d, device):
        self.net, self.device = net, device
        self.x = torch.zeros(rows, d, device=device)
        self.side = torch.cuda.Stream(device)
        self.telemetry = Telemetry(len(net.routed), device)
        self.graph = torch.cuda.CUDAGraph()
        self.limit = 4.0

    def body(self):
        main = torch.cuda.current_stream(self.device)
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            common = self.net.shared(self.x)
        weight, choice = self.net.route(self.x)
        self.telemetry.observe(choice)
        special = self.net.dispatch(self.x, weight, choice)
        main.wait_stream(self.side)
        return (common + special).clamp(-self.limit, self.limit)

    def build(self):
        warm = torch.cuda.Stream(self.device)
        warm.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(warm):
            for _ in range(3):
                self.body()
        torch.cuda.current_stream(self.device).wait_stream(warm)
        with torch.cuda.graph(self.graph):
            self.y = self.body()
        return self

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y


@torch.inference_mode()
def main():
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    runner = MixtureRunner(Mixture().to(device).eval(), 1024, 128, device).build()
    feed = [torch.randn(1024, 128, device=device) for _ in range(8)]
    best, prev = None, None
    t0 = time.perf_counter()
    for x in feed:
        y = runner(x)
        if prev is not None:
            shift = (y - prev).abs().mean()
            best = shift if best is None else torch.minimum(best, shift)
        prev = y
    torch.cuda.synchronize(device)
    print(f"{time.perf_counter() - t0:.4f}s drift {best.item():.4f}")


if __name__ == "__main__":
    main()
