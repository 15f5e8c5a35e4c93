"""Answers queued turns with continuous batching; a turn ends at its limit, so the host never asks the device."""

from collections import deque

import torch
from engine import VOCAB, Engine
from slots import Turn

SLOTS = 4


def serve(engine, waiting):
    done = {}
    while waiting or engine.table.turns:
        while waiting and engine.table.free:
            engine.admit(waiting.popleft())
        engine.step()
        for slot, turn in list(engine.table.turns.items()):
            if turn.steps >= turn.limit:
                turn, answer = engine.table.release(slot)
                done[turn.session] = answer
    return done


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    engine = Engine(SLOTS)
    engine.capture()
    prompts = torch.randint(3, VOCAB, (9, 3), device="cuda")
    waiting = deque(Turn(f"user-{n}", prompts[n], limit=6 + n % 5) for n in range(9))
    answers = serve(engine, waiting)
    torch.save(answers, "answers.pt")


if __name__ == "__main__":
    main()
