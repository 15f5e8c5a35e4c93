import torch

from graphs import VerifyGraphs
from model import Drafter, Verifier

VOCAB, DIM, MAX_DRAFT = 48, 24, 5


class SpeculativeLoop:
    def __init__(self, device: torch.device, batch: int):
        self.drafter = Drafter(VOCAB, DIM).to(device)
        self.graphs = VerifyGraphs(Verifier(VOCAB, DIM).to(device), batch, MAX_DRAFT, device)
        self.draft_len = 2

    def _adapt(self, drafts: torch.Tensor, chosen: torch.Tensor) -> None:
        hits = (drafts[:, 1:] == chosen[:, :-1]).float().cumprod(dim=1).sum()
        rate = hits.item() / drafts[:, 1:].numel()
        self.draft_len = min(MAX_DRAFT, self.draft_len + 1) if rate < 0.9 else max(1, self.draft_len - 1)

    @torch.no_grad()
    def run(self, last: torch.Tensor, rounds: int) -> list[torch.Tensor]:
        history = []
        for _ in range(rounds):
            drafts = self.drafter(last, self.draft_len)
            scores = self.graphs.verify(drafts)
            chosen = scores.argmax(-1)
            history.append(scores.sum(dim=1))
            last = chosen[:, -1]
            self._adapt(drafts, chosen)
        return history


def main(device="cuda"):
    torch.manual_seed(1)
    device = torch.device(device)
    loop = SpeculativeLoop(device, batch=3)
    start = torch.randint(0, VOCAB, (3,), device=device)
    return torch.stack(loop.run(start, rounds=6))


if __name__ == "__main__":
    print(main().argmax(-1).cpu())
