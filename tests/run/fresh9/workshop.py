"""A mixture-of-experts tower whose shared expert runs beside the routed ones, on a second stream inside the graph."""

import torch
from torch import nn

ROWS, DIM, HIDDEN, EXPERTS, LAYERS, BATCHES = 64, 96, 256, 4, 3, 16


class Mlp(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(DIM, hidden)
        self.down = nn.Linear(hidden, DIM)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.up(x)))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.gate = nn.Linear(DIM, EXPERTS)
        self.shared = Mlp(2 * HIDDEN)
        self.routed = nn.ModuleList(Mlp(HIDDEN) for _ in range(EXPERTS))
        self.register_buffer("common", torch.zeros(ROWS, DIM))

    def forward(self, x: torch.Tensor, beside: torch.cuda.Stream) -> torch.Tensor:
        x = self.norm(x)
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            self.common.copy_(self.shared(x))
        weight = self.gate(x).softmax(-1)
        routed = torch.stack([expert(x) for expert in self.routed], dim=1)
        mixed = (weight[..., None] * routed).sum(1)
        torch.cuda.current_stream().wait_stream(beside)
        return x + mixed + self.common


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(DIM, 1)

    def forward(self, x: torch.Tensor, beside: torch.cuda.Stream) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, beside)
        return self.head(x).squeeze(-1)


class Ranker:
    def __init__(self, device: torch.device) -> None:
        self.tower = Tower().to(device).eval()
        self.beside = torch.cuda.Stream()
        self.x = torch.zeros(ROWS, DIM, device=device)
        self.score = torch.zeros(ROWS, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.rank()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.rank()

    def rank(self) -> None:
        self.score.copy_(self.tower(self.x, self.beside))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.x.copy_(x)
        self.graph.replay()
        return self.score.clone()


@torch.no_grad()
def main() -> None:
    torch.manual_seed(33)
    device = torch.device("cuda")
    batches = [torch.randn(ROWS, DIM, device=device) for _ in range(BATCHES)]
    ranker = Ranker(device)
    scores = torch.stack([ranker(batch) for batch in batches])
    print("best rows", scores.argmax(-1).tolist(), f"mean {scores.mean().item():+.5f}")


if __name__ == "__main__":
    main()
