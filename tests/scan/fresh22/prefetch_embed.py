import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 8))

    def forward(self, x):
        return nn.functional.normalize(self.body(x), dim=-1)


class IndexBuilder:
    def __init__(self, encoder, batch, device):
        self.staging = torch.zeros(batch, 16, pin_memory=torch.cuda.is_available())
        self.feats = torch.zeros(batch, 16, device=device)
        self.copy_stream = torch.cuda.Stream()
        self.encoder = encoder
        self.rows = torch.zeros(0, 8, device=device)
        main = torch.cuda.Stream()
        main.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(main), torch.no_grad():
            encoder(self.feats)
        torch.cuda.current_stream().wait_stream(main)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.vec = encoder(self.feats)

    def feed(self, batch):
        self.staging.copy_(batch)
        with torch.cuda.stream(self.copy_stream):
            self.feats.copy_(self.staging, non_blocking=True)

    def build(self, batches):
        for b in batches:
            self.feed(b)
            self.graph.replay()
            self.rows = torch.cat([self.rows, self.vec])
        return self.rows


def main(device="cuda"):
    torch.manual_seed(4)
    builder = IndexBuilder(Encoder().to(device).eval(), 8, device)
    docs = [torch.randn(8, 16) for _ in range(20)]
    index = builder.build(docs)
    print(index.shape)


if __name__ == "__main__":
    main()
