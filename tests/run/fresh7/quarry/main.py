"""Speech decoder: an acoustic model and a sampler of its own, with dither noise."""
import logging

import torch
from torch import nn

log = logging.getLogger("quarry")
WIDTH, CODES, FRAMES = 48, 32, 60


def warm(fn):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            fn()
    torch.cuda.current_stream().wait_stream(side)


class Acoustic:
    def __init__(self, device):
        self.net = nn.Sequential(nn.Linear(WIDTH, 96), nn.Tanh(), nn.Linear(96, CODES)).to(device)
        self.frame = torch.zeros(1, WIDTH, device=device)
        self.logits = torch.zeros(1, CODES, device=device)
        warm(self.forward)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.forward()

    def forward(self):
        self.logits.copy_(self.net(self.frame))


class Picker:
    def __init__(self, logits, device):
        self.logits = logits
        self.scaled = torch.zeros_like(logits)
        self.code = torch.zeros(1, dtype=torch.long, device=device)
        self.graph = None
        self.enabled = self.compile()

    def pick(self):
        spread = (self.logits.amax() - self.logits.amin()).item()
        self.scaled.copy_(self.logits / max(spread, 1e-3))
        self.code.copy_(self.scaled.argmax(-1))

    def compile(self):
        warm(self.pick)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.pick()
        except RuntimeError as err:
            log.info("picker stays as it is: %s", err)
            return False
        self.graph = graph
        return True

    def __call__(self):
        if self.graph is not None:
            self.graph.replay()
        else:
            self.scaled.copy_(self.logits)
            self.code.copy_(self.scaled.argmax(-1))
        return self.code


def dither(shape, device):
    try:
        return torch.randn(shape, device=device)
    except RuntimeError:
        return torch.zeros(shape, device=device)


@torch.no_grad()
def main():
    torch.manual_seed(15)
    device = torch.device("cuda")
    acoustic = Acoustic(device)
    frames = torch.randn(FRAMES, 1, WIDTH).to(device)
    picker = Picker(acoustic.logits, device)
    noise = dither((FRAMES, 1, WIDTH), device) * 0.05
    codes = torch.zeros(FRAMES, dtype=torch.long, device=device)
    for i in range(FRAMES):
        acoustic.frame.copy_(frames[i] + noise[i])
        acoustic.graph.replay()
        codes[i:i + 1].copy_(picker())
    print(f"frames {FRAMES} codes {codes.sum().item()} dither {noise.std().item():.4f}")


if __name__ == "__main__":
    main()
