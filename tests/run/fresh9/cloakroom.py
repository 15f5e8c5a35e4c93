"""Generation with an adapter for each row: plans are recorded for sizes of a batch and of its largest adapter."""

import torch
from torch import nn

DIM, VOCAB, TOKENS, SIZES, RANKS, ADAPTERS = 48, 160, 8, (4, 8), (4, 16), 6


class Plan:
    """The shape of a batch: how many rows, and the rank to which its adapters are padded."""

    __slots__ = ("rank", "rows")

    def __init__(self, rows: int, rank: int) -> None:
        self.rows = rows
        self.rank = rank

    def __repr__(self) -> str:
        return f"{self.rows}x{self.rank}"


class Writer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.base = nn.Linear(2 * DIM, DIM)
        self.head = nn.Linear(DIM, VOCAB)
        self.register_buffer("down", 0.2 * torch.randn(ADAPTERS, max(RANKS), 2 * DIM))
        self.register_buffer("up", 0.2 * torch.randn(ADAPTERS, DIM, max(RANKS)))

    def forward(self, token: torch.Tensor, state: torch.Tensor, adapter: torch.Tensor, rank: int) -> torch.Tensor:
        x = torch.cat((self.embed(token), state), dim=-1)
        small = torch.einsum("rd,rkd->rk", x, self.down[adapter, :rank])
        return torch.tanh(self.base(x) + torch.einsum("rk,rdk->rd", small, self.up[adapter, :, :rank]))


class Slots:
    """The rows that a step reads and writes."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.token = torch.zeros(rows, dtype=torch.long, device=device)
        self.state = torch.zeros(rows, DIM, device=device)
        self.adapter = torch.zeros(rows, dtype=torch.long, device=device)


class Engine:
    def __init__(self, device: torch.device) -> None:
        self.model = Writer().to(device).eval()
        self.slots = {rows: Slots(rows, device) for rows in SIZES}
        self.graphs: dict[Plan, torch.cuda.CUDAGraph] = {}
        self.pool = torch.cuda.graph_pool_handle()
        for rows in sorted(SIZES, reverse=True):
            for rank in sorted(RANKS, reverse=True):
                self.record(Plan(rows, rank))

    def step(self, plan: Plan) -> None:
        slots = self.slots[plan.rows]
        slots.state.copy_(self.model(slots.token, slots.state, slots.adapter, plan.rank))
        slots.token.copy_(self.model.head(slots.state).argmax(-1))

    def record(self, plan: Plan) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step(plan)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self.step(plan)
        self.graphs[plan] = graph

    def generate(self, first: torch.Tensor, adapters: torch.Tensor, rank: int) -> torch.Tensor:
        count = len(first)
        rows = min(size for size in SIZES if size >= count)
        plan = Plan(rows, min(size for size in RANKS if size >= rank))
        slots = self.slots[rows]
        slots.token.zero_()
        slots.token[:count].copy_(first)
        slots.adapter.zero_()
        slots.adapter[:count].copy_(adapters)
        slots.state.zero_()
        graph = self.graphs.get(plan)
        tokens = []
        for _ in range(TOKENS):
            if graph is not None:
                graph.replay()
            else:
                self.step(plan)
            tokens.append(slots.token[:count].clone())
        return torch.stack(tokens, dim=1)


@torch.no_grad()
def main() -> None:
    torch.manual_seed(52)
    device = torch.device("cuda")
    engine = Engine(device)
    texts = []
    for count, rank in ((3, 4), (8, 16), (5, 3), (4, 12), (7, 8), (2, 2), (6, 4), (1, 16)):
        first = torch.randint(VOCAB, (count,), device=device)
        adapters = torch.randint(ADAPTERS, (count,), device=device)
        texts.append(engine.generate(first, adapters, rank))
    for text in texts[::3]:
        print(text[0].tolist())


if __name__ == "__main__":
    main()
