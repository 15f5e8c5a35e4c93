from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Request:
    prompt: list[int]
    max_tokens: int = 16
    temperature: float = 0.0
    tokens: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.tokens)

    def is_done(self, end: int) -> bool:
        return len(self.tokens) >= self.max_tokens or (bool(self.tokens) and self.tokens[-1] == end)
