import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, dim: int, rank: int):
        super().__init__()
        self.base = nn.Linear(dim, dim, bias=False)
        self.down = nn.Parameter(torch.randn(rank, dim) * 0.05, requires_grad=False)
        self.up = nn.Parameter(torch.zeros(dim, rank), requires_grad=False)
        self.alpha = 8.0

    def forward(self, x):
        return self.base(x) + (x @ self.down.T @ self.up.T) * (self.alpha / self.down.shape[0])


class FusedHead(nn.Module):
    """Logit head whose adapter is folded into one matrix."""

    def __init__(self, dim: int, vocab: int, rank: int):
        super().__init__()
        self.register_buffer("weight", torch.randn(vocab, dim) * 0.1)
        self.register_buffer("a", torch.zeros(rank, dim))
        self.register_buffer("b", torch.zeros(vocab, rank))
        self.register_buffer("folded", torch.zeros(vocab, dim))

    @torch.no_grad()
    def fold(self):
        self.folded = self.weight + self.b @ self.a

    def forward(self, x):
        return x @ self.folded.T


class Bank:
    def __init__(self, dim, vocab, rank, device):
        self.device = device
        self.layer = LoRALinear(dim, rank).to(device)
        self.head = FusedHead(dim, vocab, rank).to(device)
        self.head.fold()
        self.adapters: dict[str, dict[str, torch.Tensor]] = {}
        self.x = torch.zeros(4, dim, device=device)
        self.side = torch.cuda.Stream(device)
        self.active = None
        self._capture()

    def register(self, name: str, rank: int, dim: int, vocab: int, alpha: float):
        self.adapters[name] = {
            "down": torch.randn(rank, dim, device=self.device) * 0.1,
            "up": torch.randn(dim, rank, device=self.device) * 0.1,
            "a": torch.randn(rank, dim, device=self.device) * 0.1,
            "b": torch.randn(vocab, rank, device=self.device) * 0.1,
            "alpha": alpha,
        }

    @torch.no_grad()
    def _capture(self):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.head(self.layer(self.x))
        torch.cuda.current_stream().wait_stream(self.side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.side):
            self.logits = self.head(self.layer(self.x))

    @torch.no_grad()
    def activate(self, name: str):
        if name == self.active:
            return
        new = self.adapters[name]
        self.layer.down.copy_(new["down"])
        self.layer.up.copy_(new["up"])
        self.layer.alpha = new["alpha"]
        self.head.a.copy_(new["a"])
        self.head.b.copy_(new["b"])
        self.active = name

    def infer(self, name: str, x: torch.Tensor) -> torch.Tensor:
        self.activate(name)
        self.x.copy_(x)
        self.graph.replay()
        return self.logits.softmax(-1)


def main():
    device = torch.device("cuda")
    torch.manual_seed(2)
    bank = Bank(16, 20, 4, device)
    for i, name in enumerate(("law", "med", "code")):
        bank.register(name, 4, 16, 20, 4.0 * (i + 1))
    rows = []
    for turn in range(9):
        x = torch.randn(4, 16, device=device)
        rows.append(bank.infer(("law", "med", "code")[turn % 3], x).amax(-1))
    print(torch.stack(rows).cpu())


if __name__ == "__main__":
    main()
