"""A grammar of flat lists of numbers, as a table of states: token -> next state."""

from __future__ import annotations

OPEN, CLOSE, COMMA, MINUS = 0, 1, 2, 3
DIGITS = range(4, 14)
VOCAB = 32

TABLE: dict[str, dict[int, str]] = {
    "start": {OPEN: "value"},
    "value": {MINUS: "digits", **dict.fromkeys(DIGITS, "more")},
    "digits": dict.fromkeys(DIGITS, "more"),
    "more": {COMMA: "value", CLOSE: "end", **dict.fromkeys(DIGITS, "more")},
    "end": {},
}


class Guide:
    """Follows one answer through the grammar."""

    def __init__(self):
        self.state = "start"

    def allowed(self) -> list[int]:
        return sorted(TABLE[self.state])

    def advance(self, token: int) -> None:
        self.state = TABLE[self.state].get(token, "end")

    @property
    def done(self) -> bool:
        return self.state == "end"
