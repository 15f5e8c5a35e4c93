"""Text generation with adapters that are swapped between requests; graphs are not used while a swap is under way."""

import torch
from torch import nn

ROWS, DIM, VOCAB, RANK, TOKENS = 8, 48, 160, 4, 14


class AdaptedLinear(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.base = nn.Linear(inside, outside)
        self.register_buffer("down", torch.zeros(RANK, inside))
        self.register_buffer("up", torch.zeros(outside, RANK))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + (x @ self.down.t()) @ self.up.t()


class Writer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.cell = AdaptedLinear(2 * DIM, DIM)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, token: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = torch.tanh(self.cell(torch.cat((self.embed(token), state), dim=-1)))
        return self.head(state).argmax(-1), state


class Engine:
    def __init__(self, device: torch.device) -> None:
        self.model = Writer().to(device).eval()
        self.token = torch.zeros(ROWS, dtype=torch.long, device=device)
        self.state = torch.zeros(ROWS, DIM, device=device)
        self.store: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self.active = ""
        self.swapping = False
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()

    def step(self) -> None:
        token, state = self.model(self.token, self.state)
        self.token.copy_(token)
        self.state.copy_(state)

    def add(self, name: str) -> None:
        cell = self.model.cell
        self.store[name] = (0.2 * torch.randn_like(cell.down), 0.2 * torch.randn_like(cell.up))

    def swap(self, name: str) -> None:
        self.swapping = True
        down, up = self.store[name]
        if name == self.active:
            return
        self.model.cell.down.copy_(down)
        self.model.cell.up.copy_(up)
        self.active = name
        self.swapping = False

    def decode(self) -> torch.Tensor:
        if self.swapping:
            self.step()
        else:
            self.graph.replay()
        return self.token.clone()

    def generate(self, adapter: str, first: torch.Tensor) -> torch.Tensor:
        self.swap(adapter)
        self.token.copy_(first)
        self.state.zero_()
        return torch.stack([self.decode() for _ in range(TOKENS)], dim=1)


@torch.no_grad()
def main() -> None:
    torch.manual_seed(43)
    device = torch.device("cuda")
    engine = Engine(device)
    for name in ("law", "code", "chat"):
        engine.add(name)
    texts = []
    for name in ("law", "code", "chat", "chat", "chat", "chat", "law", "law", "code"):
        first = torch.randint(VOCAB, (ROWS,), device=device)
        texts.append(engine.generate(name, first))
    for text in texts[::3]:
        print(text[0].tolist())


if __name__ == "__main__":
    main()
