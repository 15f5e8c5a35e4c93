from __future__ import annotations

import torch

from .draft import Draft
from .target import Target


class Server:
    def __init__(self, draft: Draft, target: Target, eos: int):
        self.draft, self.target, self.eos = draft, target, eos

    def generate(self, prompt: int, limit: int) -> list[int]:
        tokens = [prompt]
        while len(tokens) < limit and tokens[-1] != self.eos:
            self.draft.last.fill_(tokens[-1])
            self.draft.replay()
            self.target.ids[:1].copy_(self.draft.last)
            self.target.ids[1:].copy_(self.draft.guesses)
            self.target.verify()
            tokens.extend(self.target.accepted)
        return tokens[:limit]


def main() -> None:
    device = "cuda"
    server = Server(Draft(100, 32, 4, 16, device), Target(100, 64, 4, device), eos=0)
    for prompt in (5, 17, 42):
        server.generate(prompt, limit=64)


if __name__ == "__main__":
    main()
