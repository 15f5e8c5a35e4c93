import torch
import torch.nn.functional as F


class ExpertBank:
    def __init__(self, experts, dim, hidden, device):
        self.up = torch.randn(experts, hidden, dim, device=device) / dim ** 0.5
        self.down = torch.randn(experts, dim, hidden, device=device) / hidden ** 0.5

    def run(self, x, counts):
        out = torch.empty_like(x)
        start = 0
        for e, n in enumerate(counts.tolist()):
            if n:
                part = x[start:start + n]
                out[start:start + n] = F.silu(part @ self.up[e].T) @ self.down[e].T
            start += n
        return out


class SharedExpert:
    """The dense expert, which runs beside the routed ones."""

    def __init__(self, dim, hidden, device):
        self.up = torch.randn(hidden, dim, device=device) / dim ** 0.5
        self.down = torch.randn(dim, hidden, device=device) / hidden ** 0.5
        self.stream = torch.cuda.Stream(device)
        self.result = None

    def launch(self, x):
        self.stream.wait_stream(torch.cuda.current_stream(x.device))
        with torch.cuda.stream(self.stream):
            self.result = F.silu(x @ self.up.T) @ self.down.T

    def collect(self):
        return self.result


class LoadStats:
    def __init__(self, experts, device):
        self.ema = torch.zeros(experts, device=device)
        self.steps = 0

    def update(self, counts):
        self.steps += 1
        decay = min(0.99, self.steps / (self.steps + 9))
        self.ema.mul_(decay).add_(counts.float(), alpha=1 - decay)
