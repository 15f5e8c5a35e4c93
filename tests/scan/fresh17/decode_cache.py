"""Decode attention over a per-request cache."""
import torch
from torch import nn


class DecodeAttention(nn.Module):
    def __init__(self, rows, width, room, device):
        super().__init__()
        self.wq = nn.Linear(width, width, device=device)
        self.wkv = nn.Linear(width, 2 * width, device=device)
        self.room, self.device = room, device
        self.keys = torch.zeros(rows, room, width, device=device)
        self.vals = torch.zeros(rows, room, width, device=device)

    def ensure(self, longest):
        if longest <= self.room:
            return
        fresh = longest + 16
        for name in ("keys", "vals"):
            old = getattr(self, name)
            new = torch.zeros(old.shape[0], fresh, old.shape[2], device=self.device)
            new[:, : self.room].copy_(old)
            setattr(self, name, new)
        self.room = fresh

    def forward(self, x, lengths):
        k, v = self.wkv(x).chunk(2, dim=-1)
        last = lengths.clamp_max(self.keys.shape[1] - 1)
        at = last.view(-1, 1, 1).expand(-1, 1, x.shape[1])
        self.keys.scatter_(1, at, k.unsqueeze(1))
        self.vals.scatter_(1, at, v.unsqueeze(1))
        span = torch.arange(self.keys.shape[1], device=x.device)
        score = torch.einsum("bd,bsd->bs", self.wq(x), self.keys)
        score = score.masked_fill(span > lengths.unsqueeze(1), -1e9)
        return torch.einsum("bs,bsd->bd", score.softmax(-1), self.vals)


class Decoder:
    def __init__(self, layer, rows, width, device):
        self.layer, self.device = layer, device
        self.x = torch.zeros(rows, width, device=device)
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            layer(self.x, self.lengths)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.y = layer(self.x, self.lengths)

    def step(self, rows, lengths):
        n = rows.shape[0]
        self.layer.ensure(max(lengths) + 1)
        self.x.zero_()
        self.x[:n].copy_(rows)
        host = torch.tensor(lengths + [0] * (len(self.lengths) - n)).pin_memory()
        self.lengths.copy_(host, non_blocking=True)
        self.graph.replay()
        torch.cuda.current_stream().synchronize()
        return self.y[:n].clone()


@torch.no_grad()
def main(device="cuda"):
    torch.manual_seed(0)
    device = torch.device(device)
    decoder = Decoder(DecodeAttention(4, 16, 20, device), 4, 16, device)
    live = [0, 3, 9, 12]
    out = None
    for turn in range(16):
        if turn == 10:
            live = live[:2]
        out = decoder.step(torch.randn(len(live), 16, device=device), live)
        live = [n + 1 for n in live]
    print(out.shape, decoder.layer.keys.shape)


if __name__ == "__main__":
    main()
