"""On-policy tuning of a small decoder: the keys and values of the fixed system prompt are computed once and kept."""

import torch
from torch import nn

ROWS, DIM, VOCAB, PREFIX, TOKENS, ROUNDS = 8, 32, 80, 12, 10, 10
TOTAL = PREFIX + TOKENS


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.place = nn.Embedding(TOTAL, DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        self.head = nn.Linear(DIM, VOCAB)

    def project(self, ids: torch.Tensor, place: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.embed(ids) + self.place(place)
        return x, *self.qkv(x).chunk(3, dim=-1)


class Actor:
    def __init__(self, policy: Policy, prompt: torch.Tensor) -> None:
        device = prompt.device
        self.policy, self.prompt = policy, prompt
        self.keys = torch.zeros(ROWS, TOTAL, DIM, device=device)
        self.values = torch.zeros(ROWS, TOTAL, DIM, device=device)
        self.places = torch.arange(TOTAL, device=device)
        self.at = torch.full((1,), PREFIX, device=device)
        self.token = torch.zeros(ROWS, dtype=torch.long, device=device)
        self.score = torch.zeros(ROWS, device=device)
        self.prefix_ready = False
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()

    def fill_prefix(self) -> None:
        _, _, k, v = self.policy.project(self.prompt, self.places[:PREFIX])
        self.keys[:, :PREFIX].copy_(k)
        self.values[:, :PREFIX].copy_(v)
        self.prefix_ready = True

    def step(self) -> None:
        if not self.prefix_ready:
            self.fill_prefix()
        x, q, k, v = self.policy.project(self.token, self.at)
        self.keys.index_copy_(1, self.at, k[:, None])
        self.values.index_copy_(1, self.at, v[:, None])
        match = (self.keys @ q[..., None]).squeeze(-1) / DIM**0.5
        match = match.masked_fill(self.places > self.at, -1e9).softmax(-1)
        x = x + self.policy.out((match[:, None] @ self.values).squeeze(1))
        chances = self.policy.head(x).log_softmax(-1)
        best, token = chances.max(-1)
        self.token.copy_(token)
        self.score.add_(best)
        self.at.add_(1)

    def refresh(self) -> None:
        """The policy's weights have changed."""
        self.prefix_ready = False

    def rollout(self, first: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.token.copy_(first)
        self.score.zero_()
        self.at.fill_(PREFIX)
        if not self.prefix_ready:
            self.fill_prefix()
        tokens = []
        for _ in range(TOKENS):
            self.graph.replay()
            tokens.append(self.token.clone())
        return torch.stack(tokens, dim=1), self.score.clone()


@torch.no_grad()
def learn(policy: Policy, score: torch.Tensor) -> None:
    """A step of random search, in place, as large as the mean score asks for."""
    size = 0.02 * score.mean().neg().clamp(0.1, 5.0)
    for weight in policy.parameters():
        weight.add_(size * torch.randn_like(weight))


@torch.no_grad()
def main() -> None:
    torch.manual_seed(71)
    device = torch.device("cuda")
    policy = Policy().to(device).eval()
    actor = Actor(policy, torch.randint(VOCAB, (PREFIX,), device=device))
    scores = []
    for _ in range(ROUNDS):
        tokens, score = actor.rollout(torch.randint(VOCAB, (ROWS,), device=device))
        learn(policy, score)
        actor.refresh()
        scores.append(score.mean())
    print("score", [round(value, 4) for value in torch.stack(scores).tolist()])
    print("last text", tokens[0].tolist())


if __name__ == "__main__":
    main()
