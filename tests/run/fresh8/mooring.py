"""Decode server with rotary positions whose base is raised when a conversation outgrows the trained context."""

import torch
from torch import nn

DIM, HEADS, ROWS, WINDOW, VOCAB = 64, 4, 4, 256, 128
HEAD = DIM // HEADS


def rotary(base: float, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    half = HEAD // 2
    inverse = torch.exp(-torch.arange(half, device=device) / half * torch.log(torch.full((), base, device=device)))
    angle = torch.arange(WINDOW, device=device)[:, None] * inverse
    return angle.cos(), angle.sin()


class Positions:
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.base = 100.0
        self.trained = 32
        self.cos, self.sin = rotary(self.base, device)

    def stretch(self, length: int) -> None:
        if length <= self.trained:
            return
        while self.trained < length:
            self.trained *= 2
            self.base *= 8.0
        cos, sin = rotary(self.base, self.device)
        self.cos.copy_(cos)
        self.sin.copy_(sin)

    def turn(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        cos = self.cos.index_select(0, at)[:, None]
        sin = self.sin.index_select(0, at)[:, None]
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class Decoder(nn.Module):
    def __init__(self, positions: Positions) -> None:
        super().__init__()
        self.positions = positions
        self.embed = nn.Embedding(VOCAB, DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.out = nn.Linear(DIM, VOCAB, bias=False)
        self.register_buffer("keys", torch.zeros(ROWS, WINDOW, HEADS, HEAD))
        self.register_buffer("values", torch.zeros(ROWS, WINDOW, HEADS, HEAD))
        self.register_buffer("slots", torch.arange(WINDOW))

    def forward(self, token: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.embed(token)).view(ROWS, 3, HEADS, HEAD).unbind(1)
        q, k = self.positions.turn(q, at), self.positions.turn(k, at)
        here = at[:, None, None, None].expand(ROWS, 1, HEADS, HEAD)
        self.keys.scatter_(1, here, k[:, None])
        self.values.scatter_(1, here, v[:, None])
        score = torch.einsum("rhd,rwhd->rhw", q, self.keys) / HEAD**0.5
        score = score.masked_fill(self.slots[None, None] > at[:, None, None], -1e9)
        mixed = torch.einsum("rhw,rwhd->rhd", score.softmax(-1), self.values)
        return self.out(mixed.reshape(ROWS, DIM))


class Server:
    def __init__(self, device: torch.device) -> None:
        self.positions = Positions(device)
        self.model = Decoder(self.positions).to(device).eval()
        self.token = torch.zeros(ROWS, dtype=torch.long, device=device)
        self.at = torch.zeros(ROWS, dtype=torch.long, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.model(self.token, self.at)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.token.copy_(self.model(self.token, self.at).argmax(-1))
            self.at.add_(1)

    def generate(self, first: torch.Tensor, count: int) -> list[torch.Tensor]:
        self.token.copy_(first)
        self.at.zero_()
        said = []
        for length in range(1, count + 1):
            self.positions.stretch(length)
            self.graph.replay()
            said.append(self.token.clone())
        return said


@torch.no_grad()
def main() -> None:
    torch.manual_seed(3)
    device = torch.device("cuda")
    server = Server(device)
    for count in (20, 48, 90):
        first = torch.randint(VOCAB, (ROWS,), device=device)
        said = server.generate(first, count)
        print(count, torch.stack(said, 1)[0, -6:].tolist(), server.positions.base)


if __name__ == "__main__":
    main()
