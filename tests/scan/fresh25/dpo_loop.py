"""Direct preference optimisation of a small policy against a reference that is renewed now and then."""
import copy
from typing import Iterator, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


class Pair(NamedTuple):
    chosen: torch.Tensor
    rejected: torch.Tensor


class Policy(nn.Module):
    def __init__(self, vocab: int = 40, width: int = 32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.cell = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, vocab)

    def log_prob(self, ids: torch.Tensor) -> torch.Tensor:
        tokens = self.embed(ids[:, :-1])
        context = tokens.cumsum(1) / torch.arange(1, tokens.shape[1] + 1, device=ids.device).view(1, -1, 1)
        hidden = torch.tanh(self.cell(torch.cat([tokens, context], dim=-1)))
        log_probs = F.log_softmax(self.head(hidden), dim=-1)
        return log_probs.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1).sum(-1)


def preference_pairs(steps: int, rows: int, length: int, seed: int) -> Iterator[Pair]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        chosen = torch.randint(0, 40, (rows, length), generator=generator).sort(dim=1).values
        rejected = torch.randint(0, 40, (rows, length), generator=generator)
        yield Pair(chosen, rejected)


class DPOTrainer:
    renew_every = 8

    def __init__(self, policy: Policy, rows: int, length: int, device: torch.device):
        self.policy = policy
        self.reference = copy.deepcopy(policy).requires_grad_(False)
        self.beta = 0.5
        self.chosen = torch.zeros(rows, length, dtype=torch.int64, device=device)
        self.rejected = torch.zeros_like(self.chosen)
        self.margin = torch.zeros(1, device=device)
        self.host_margin = torch.zeros(1, pin_memory=True)
        self.stalled = 0
        self.steps = 0
        self.optimizer = torch.optim.SGD(policy.parameters(), lr=0.2)
        self.stream = torch.cuda.Stream(device)
        self.graph = self.capture()

    def objective(self) -> torch.Tensor:
        with torch.no_grad():
            base = self.reference.log_prob(self.chosen) - self.reference.log_prob(self.rejected)
        ratio = self.policy.log_prob(self.chosen) - self.policy.log_prob(self.rejected) - base
        self.margin.copy_(ratio.detach().mean().view(1))
        return -F.logsigmoid(self.beta * ratio).mean()

    def update(self) -> torch.Tensor:
        loss = self.objective()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def capture(self) -> torch.cuda.CUDAGraph:
        saved = copy.deepcopy(self.policy.state_dict())
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.update()
        torch.cuda.current_stream().wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.loss = self.update()
        self.policy.load_state_dict(saved)
        return graph

    def renew_reference(self) -> None:
        weights = {name: value.detach().clone() for name, value in self.policy.state_dict().items()}
        self.reference.load_state_dict(weights, assign=True)
        self.reference.requires_grad_(False)
        self.beta *= 0.6

    def step(self, pair: Pair) -> None:
        self.chosen.copy_(pair.chosen)
        self.rejected.copy_(pair.rejected)
        self.graph.replay()
        self.host_margin.copy_(self.margin, non_blocking=True)
        self.steps += 1
        if self.host_margin[0] < 0:
            self.stalled += 1
        if self.steps % self.renew_every == 0:
            self.renew_reference()


def main() -> None:
    torch.manual_seed(2)
    device = torch.device("cuda")
    policy = Policy().to(device)
    trainer = DPOTrainer(policy, rows=16, length=12, device=device)
    for pair in preference_pairs(40, 16, 12, seed=9):
        trainer.step(pair)
    print(f"loss {trainer.loss.item():.6f} margin {trainer.margin.item():.6f} stalled {trainer.stalled}")


if __name__ == "__main__":
    main()
