"""Answers queued turns with continuous batching."""

from collections import deque

import torch
from engine import Engine
from slots import Turn

SLOTS, EOS = 4, 2


def finished(turn):
    if len(turn.answer) >= turn.limit:
        return True
    return bool(turn.answer[-1] == EOS)


def serve(engine, waiting):
    done = []
    while waiting or engine.table.turns:
        while waiting and engine.table.free:
            engine.admit(waiting.popleft())
        engine.step()
        for slot, turn in list(engine.table.turns.items()):
            if finished(turn):
                done.append(engine.table.release(slot))
    return done


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    engine = Engine(SLOTS)
    engine.capture()
    waiting = deque(Turn(f"user-{n}", [3 + n, 11, 7 * n % 90 + 1], limit=6 + n % 5) for n in range(9))
    answers = serve(engine, waiting)
    torch.save({turn.session: torch.stack(turn.answer).cpu() for turn in answers}, "answers.pt")


if __name__ == "__main__":
    main()
