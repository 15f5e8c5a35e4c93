"""An encoder and a decoder, each recorded and on a stream of its own."""
import torch
from torch import nn

WIDTH, ROWS, STEPS = 96, 16, 60


class Stage:
    """One recorded network on one stream."""

    def __init__(self, net, source, device):
        self.net = net.to(device).eval()
        self.source = source
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.net(self.source)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.result = self.net(self.source)

    def run(self):
        with torch.cuda.stream(self.stream):
            self.graph.replay()


class Pipeline:
    def __init__(self, device):
        mlp = lambda: nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.source = torch.zeros(ROWS, WIDTH, device=device)
        self.encoder = Stage(mlp(), self.source, device)
        self.decoder = Stage(mlp(), self.encoder.result, device)
        self.total = torch.zeros((), device=device)

    def hand_over(self, giver, taker):
        torch.cuda.synchronize()

    def step(self, batch):
        main = torch.cuda.current_stream()
        self.source.copy_(batch)
        self.encoder.stream.wait_stream(main)
        self.encoder.run()
        self.hand_over(self.encoder.stream, self.decoder.stream)
        self.decoder.run()
        main.wait_stream(self.decoder.stream)
        self.total.add_(self.decoder.result.abs().mean())


@torch.no_grad()
def main():
    torch.manual_seed(16)
    device = torch.device("cuda")
    pipeline = Pipeline(device)
    batches = torch.randn(STEPS, ROWS, WIDTH).to(device)
    for i in range(STEPS):
        pipeline.step(batches[i])
    print(f"steps {STEPS} total {pipeline.total.item():.5f}")


if __name__ == "__main__":
    main()
