"""Runs groups of prompts; prints what each group generated."""
import torch

from engine import DecodeEngine, TinyLM

STOP = 0


def generate(engine, prompts, limit, penalise, device):
    engine.penalise = penalise
    rows = [engine.pool.take() for _ in prompts]
    slots = torch.tensor(rows, device=device)
    tokens = torch.tensor(prompts, device=device)
    positions = torch.zeros_like(tokens)
    done = torch.zeros_like(tokens, dtype=torch.bool)
    history = []
    for _ in range(limit):
        tokens = engine.decode(tokens, slots, positions)
        history.append(tokens)
        done |= tokens == STOP
        positions += 1
        if done.all():
            break
    return rows, torch.stack(history, 1)


def main():
    device = torch.device("cuda")
    torch.manual_seed(0)
    engine = DecodeEngine(TinyLM(), device)
    plan = [([5, 9, 11, 3], 10, False), ([8, 2, 40], 24, True), ([7, 12], 16, True)]
    for prompts, limit, penalise in plan:
        rows, text = generate(engine, prompts, limit, penalise, device)
        print(rows, text.tolist())
        for row in rows:
            engine.pool.give(row)
    print("graphs", sorted(engine.graphs))


if __name__ == "__main__":
    main()
