"""Serves bursts of prompts and sleeps between them."""

from queue import Empty, SimpleQueue

import torch
from engine import Engine

ROWS = 4


def serve(engine: Engine, prompts: SimpleQueue) -> list[torch.Tensor]:
    answers = []
    while True:
        try:
            burst = prompts.get_nowait()
        except Empty:
            return answers
        for first in burst:
            answers.append(engine.answer(first, limit=12))
        engine.sleeper.sleep()


@torch.no_grad()
def main():
    torch.manual_seed(2)
    engine = Engine(ROWS, torch.device("cuda"))
    engine.capture()
    prompts = SimpleQueue()
    for _ in range(3):
        prompts.put([torch.randint(2, 50, (ROWS,)) for _ in range(4)])
    answers = serve(engine, prompts)
    torch.save({"answers": answers, "times": engine.times}, "answers.pt")


if __name__ == "__main__":
    main()
