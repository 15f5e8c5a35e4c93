"""A genetic search: the fitness and the number of children are recorded, the next generation is bred eagerly."""

import torch
from torch import nn

GROUP, GENES, GENERATIONS, ELITE = 128, 24, 60, 4


class Terrain(nn.Module):
    """A rugged height over the genes; the search looks for its top."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("peaks", torch.randn(12, GENES))
        self.register_buffer("heights", 0.5 + torch.rand(12))

    def forward(self, genes: torch.Tensor) -> torch.Tensor:
        distance = torch.cdist(genes, self.peaks)
        return (self.heights * torch.exp(-0.02 * distance.square())).sum(-1)


class Search:
    def __init__(self, device: torch.device) -> None:
        self.terrain = Terrain().to(device)
        self.genes = torch.randn(GROUP, GENES, device=device)
        self.fitness = torch.zeros(GROUP, device=device)
        self.children = torch.zeros(GROUP, dtype=torch.long, device=device)
        self.members = torch.arange(GROUP, device=device)
        self.marks = (torch.arange(GROUP, device=device) + 0.5) / GROUP
        self.spread = torch.full((), 0.3, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.judge()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.judge()

    def judge(self) -> None:
        """Stochastic universal sampling: the numbers of children always sum to the size of the group."""
        fitness = self.terrain(self.genes)
        share = ((fitness - fitness.mean()) / (fitness.std() + 1e-6)).mul(1.5).softmax(-1)
        ends = share.cumsum(-1)
        owner = torch.searchsorted(ends, self.marks).clamp_(max=GROUP - 1)
        self.children.zero_().index_add_(0, owner, torch.ones_like(owner))
        self.fitness.copy_(fitness)

    def breed(self) -> None:
        best = self.genes[self.fitness.topk(ELITE).indices]
        parents = torch.repeat_interleave(self.members, self.children)
        mates = parents[torch.rand_like(self.fitness).argsort()]
        cross = torch.rand_like(self.genes) < 0.5
        bred = torch.where(cross, self.genes[parents], self.genes[mates])
        bred.add_(self.spread * torch.randn_like(bred))
        bred[:ELITE].copy_(best)
        self.genes.copy_(bred)
        self.spread.mul_(0.97)

    def run(self) -> torch.Tensor:
        tops = []
        for _ in range(GENERATIONS):
            self.graph.replay()
            tops.append(self.fitness.amax())
            self.breed()
        return torch.stack(tops)


@torch.no_grad()
def main() -> None:
    torch.manual_seed(83)
    search = Search(torch.device("cuda"))
    tops = search.run().tolist()
    print("top fitness", [round(value, 4) for value in tops[::10]], f"last {tops[-1]:.4f}")


if __name__ == "__main__":
    main()
