"""Prompt-lookup drafting: find the last n tokens earlier in the text and propose what followed there."""
import torch


class LookupDrafter:
    """Keeps the running text of one sequence on the device and proposes `width` tokens."""

    def __init__(self, capacity: int, ngram: int, width: int, fallback: list[int], device):
        self.ngram, self.width = ngram, width
        self.fallback = fallback
        self.text = torch.full((capacity,), -1, dtype=torch.long, device=device)
        self.length = torch.zeros((), dtype=torch.long, device=device)
        self.columns = torch.arange(capacity, device=device)
        self.draft = torch.zeros(width, dtype=torch.long, device=device)

    def append(self, tokens: torch.Tensor) -> None:
        where = self.length + self.columns[: tokens.numel()]
        self.text.index_copy_(0, where % self.text.numel(), tokens)
        self.length.add_(tokens.numel()).clamp_(max=self.text.numel() - self.width)

    def propose(self) -> torch.Tensor:
        tail = self.text.gather(0, self.length - self.ngram + self.columns[: self.ngram])
        windows = self.text.unfold(0, self.ngram, 1)
        valid = self.columns[: windows.shape[0]] < self.length - self.ngram
        matches = ((windows == tail).all(dim=1) & valid).nonzero().flatten()
        if matches.numel() == 0:
            self.draft.copy_(torch.tensor(self.fallback, device=self.text.device))
        else:
            follow = matches[-1] + self.ngram
            self.draft.copy_(self.text[follow : follow + self.width])
        return self.draft


class ToyTarget:
    def __init__(self, vocab: int, device):
        gen = torch.Generator().manual_seed(0)
        self.table = torch.randn(vocab, vocab, generator=gen).to(device)

    def greedy(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.table[tokens].argmax(dim=-1)


class LookupDecoder:
    def __init__(self, drafter: LookupDrafter, target: ToyTarget):
        self.drafter, self.target = drafter, target
        self.total = torch.zeros((), dtype=torch.long, device=drafter.text.device)

    @torch.inference_mode()
    def __call__(self, seen: torch.Tensor) -> torch.Tensor:
        self.drafter.append(seen)
        draft = self.drafter.propose()
        window = torch.cat((seen[-1:], draft))
        answer = self.target.greedy(window.clamp(min=0))
        right = (answer[:-1] == draft).long().cumprod(0).sum()
        self.total += right
        padded = torch.zeros_like(answer)
        for i in range(int(right) + 1):
            padded[i] = answer[i]
        return padded


def build(device):
    drafter = LookupDrafter(capacity=64, ngram=2, width=4, fallback=[3, 1, 4, 1], device=device)
    decoder = LookupDecoder(drafter, ToyTarget(8, device))
    prompt = torch.tensor([1, 2, 3, 1, 2, 5, 6, 1], device=device)
    drafter.append(prompt)
    return decoder, (torch.tensor([1, 2], device=device),)
