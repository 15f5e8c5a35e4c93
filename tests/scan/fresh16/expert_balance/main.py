"""Runs a graphed layer of experts on a drifting stream of tokens and balances it."""

import torch
from balancer import Balancer
from layer import WIDTH, Experts

TOKENS = 64


class LayerRunner:
    def __init__(self, layer):
        self.layer = layer
        self.x = torch.zeros(TOKENS, WIDTH, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.layer(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.layer.load.zero_()
        with torch.cuda.graph(self.graph):
            self.y = self.layer(self.x)

    def __call__(self, tokens):
        self.x.copy_(tokens)
        self.graph.replay()
        return self.y


@torch.no_grad()
def main():
    torch.manual_seed(5)
    layer = Experts().cuda().requires_grad_(False)
    runner = LayerRunner(layer)
    runner.capture()
    balancer = Balancer(layer, every=5)
    drift = torch.randn(WIDTH, device="cuda")
    outputs = []
    for number in range(40):
        tokens = torch.randn(TOKENS, WIDTH, device="cuda") + 0.05 * number * drift
        outputs.append(runner(tokens))
        balancer(number)
    torch.save({"outputs": torch.stack(outputs).cpu(), "moves": balancer.moves}, "experts.pt")


if __name__ == "__main__":
    main()
