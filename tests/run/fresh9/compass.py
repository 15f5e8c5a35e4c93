"""A mixture-of-experts decoder that keeps busy experts in the first slots: experts are moved every few requests."""

import torch
from torch import nn

ROWS, DIM, HIDDEN, VOCAB, EXPERTS, TOP, TOKENS, REQUESTS, EVERY = 8, 32, 64, 120, 8, 2, 10, 12, 4


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(DIM, EXPERTS)
        self.up = nn.Parameter(torch.randn(EXPERTS, DIM, HIDDEN) / DIM**0.5, requires_grad=False)
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, DIM) / HIDDEN**0.5, requires_grad=False)
        self.register_buffer("slot_of", torch.arange(EXPERTS))
        self.register_buffer("load", torch.zeros(EXPERTS))
        self.register_buffer("one", torch.ones(ROWS * TOP))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, expert = self.gate(x).softmax(-1).topk(TOP, dim=-1)
        self.load.index_add_(0, expert.flatten(), self.one)
        slot = self.slot_of[expert]
        hidden = torch.einsum("rd,rtdh->rth", x, self.up[slot]).relu()
        mixed = torch.einsum("rth,rthd->rtd", hidden, self.down[slot])
        return x + (weight[..., None] * mixed).sum(1)

    @torch.no_grad()
    def rebalance(self) -> None:
        """Put the experts into slots in the order of their load since the last call."""
        order = self.load.argsort(descending=True)
        taken_from = self.slot_of[order]
        self.up.copy_(self.up[taken_from])
        self.down.copy_(self.down[taken_from])
        self.slot_of.copy_(order.argsort())
        self.load.zero_()


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Experts() for _ in range(2))
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        x = self.embed(token)
        for layer in self.layers:
            x = layer(nn.functional.layer_norm(x, (DIM,)))
        return self.head(x)


class Engine:
    def __init__(self, device: torch.device) -> None:
        self.model = Decoder().to(device).eval()
        self.token = torch.zeros(ROWS, dtype=torch.long, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()

    def step(self) -> None:
        self.token.copy_(self.model(self.token).argmax(-1))

    def generate(self, first: torch.Tensor) -> torch.Tensor:
        self.token.copy_(first)
        tokens = []
        for _ in range(TOKENS):
            self.graph.replay()
            tokens.append(self.token.clone())
        return torch.stack(tokens, dim=1)

    def rebalance(self) -> None:
        for layer in self.model.layers:
            layer.rebalance()


@torch.no_grad()
def main() -> None:
    torch.manual_seed(3)
    device = torch.device("cuda")
    engine = Engine(device)
    texts = []
    for number in range(REQUESTS):
        texts.append(engine.generate(torch.randint(VOCAB, (ROWS,), device=device)))
        if number % EVERY == EVERY - 1:
            engine.rebalance()
    for text in texts[::4]:
        print(text[0].tolist())


if __name__ == "__main__":
    main()
