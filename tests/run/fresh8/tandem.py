"""Speculative sampling with two recorded graphs in one pool: a draft that proposes, a target that accepts."""

from dataclasses import dataclass

import torch
from torch import nn

ROWS, VOCAB, DIM, AHEAD, ROUNDS = 6, 90, 40, 4, 12


@dataclass
class Request:
    seed: int
    first: torch.Tensor


class Language(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.body = nn.Sequential(nn.Linear(DIM, hidden), nn.GELU(), nn.Linear(hidden, VOCAB))

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        return self.body(self.embed(token))


class Speculator:
    def __init__(self, device: torch.device) -> None:
        self.draft = Language(32).to(device).eval()
        self.target = Language(128).to(device).eval()
        self.generator = torch.Generator(device)
        self.token = torch.zeros(ROWS, dtype=torch.long, device=device)
        self.proposed = torch.zeros(ROWS, AHEAD, dtype=torch.long, device=device)
        self.chance = torch.zeros(ROWS, AHEAD, device=device)
        self.accepted = torch.zeros(ROWS, dtype=torch.long, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.propose()
            self.verify()
        torch.cuda.current_stream().wait_stream(side)
        pool = torch.cuda.graph_pool_handle()
        self.proposing, self.verifying = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        self.proposing.register_generator_state(self.generator)
        self.verifying.register_generator_state(self.generator)
        with torch.cuda.graph(self.proposing, pool=pool):
            self.propose()
        with torch.cuda.graph(self.verifying, pool=pool):
            self.verify()

    def draw(self, chances: torch.Tensor) -> torch.Tensor:
        noise = torch.empty_like(chances).exponential_(generator=self.generator)
        return (chances / noise).argmax(-1)

    def propose(self) -> None:
        token = self.token
        for ahead in range(AHEAD):
            chances = self.draft(token).softmax(-1)
            token = self.draw(chances)
            self.proposed[:, ahead].copy_(token)
            self.chance[:, ahead].copy_(chances.gather(-1, token[:, None]).squeeze(-1))

    def verify(self) -> None:
        before = torch.cat((self.token[:, None], self.proposed[:, :-1]), dim=1)
        chances = self.target(before).softmax(-1)
        wanted = chances.gather(-1, self.proposed[..., None]).squeeze(-1)
        coin = torch.empty_like(wanted).uniform_(generator=self.generator)
        good = (coin * self.chance < wanted).long().cumprod(dim=1)
        self.accepted.copy_(good.sum(1))
        last = (self.accepted - 1).clamp_(min=0)[:, None]
        kept = self.proposed.gather(1, last).squeeze(1)
        again = self.draw(chances[:, 0])
        self.token.copy_(torch.where(self.accepted > 0, kept, again))

    def generate(self, request: Request) -> tuple[torch.Tensor, torch.Tensor]:
        self.generator.manual_seed(request.seed)
        self.token.copy_(request.first)
        tokens, counts = [], []
        for _ in range(ROUNDS):
            self.proposing.replay()
            self.verifying.replay()
            tokens.append(self.token.clone())
            counts.append(self.accepted.clone())
        return torch.stack(tokens, 1), torch.stack(counts, 1)


@torch.no_grad()
def main() -> None:
    torch.manual_seed(59)
    device = torch.device("cuda")
    speculator = Speculator(device)
    for seed in (100, 101, 102):
        first = torch.randint(VOCAB, (ROWS,), device=device)
        tokens, counts = speculator.generate(Request(seed, first))
        print(seed, tokens[0].tolist(), f"accepted {counts.float().mean().item():.3f}")


if __name__ == "__main__":
    main()
