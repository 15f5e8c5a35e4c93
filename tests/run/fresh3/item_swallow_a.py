"""Audio embedding with a limiter; the runner tries to use a graph."""
import logging

import torch
from torch import nn

log = logging.getLogger("embedder")


class Limiter(nn.Module):
    """Scales a batch down when its peak is above the ceiling."""

    def __init__(self, ceiling):
        super().__init__()
        self.ceiling = ceiling

    def forward(self, x):
        peak = x.abs().amax()
        if peak.item() > self.ceiling:
            x = x * (self.ceiling / peak)
        return x


class Embedder(nn.Module):
    def __init__(self, samples=400, width=64):
        super().__init__()
        self.limit = Limiter(0.9)
        self.frame = nn.Conv1d(1, width, kernel_size=20, stride=10)
        self.proj = nn.Linear(width, width)

    def forward(self, wave):
        x = torch.relu(self.frame(self.limit(wave)))
        return self.proj(x.mean(dim=-1))


class Runner:
    def __init__(self, model, batch, samples, device):
        self.model = model
        self.wave = torch.zeros(batch, 1, samples, device=device)
        self.graph, self.out = self._try_graph()

    def _try_graph(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.model(self.wave)
            self.model(self.wave)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                out = self.model(self.wave)
        except RuntimeError as err:
            log.debug("graph not available: %s", err)
            return None, None
        return graph, out

    def __call__(self, wave):
        self.wave.copy_(wave)
        if self.graph is None:
            return self.model(self.wave)
        self.graph.replay()
        return self.out


@torch.no_grad()
def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = Embedder().to(device).eval()
    runner = Runner(model, batch=4, samples=400, device=device)
    norm = 0.0
    for k in range(30):
        wave = torch.sin(torch.arange(400.0) * (0.01 + 0.002 * k)).expand(4, 1, 400)
        norm += runner(wave * (0.5 + 0.05 * k)).norm().item()
    print("mean norm", round(norm / 30, 5))


if __name__ == "__main__":
    main()
