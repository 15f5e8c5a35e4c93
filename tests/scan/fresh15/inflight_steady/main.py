"""Answers waves of prompts; the tokens and scores of each step are logged on the device."""

import torch
from cache import PagedCache
from runner import COLUMNS, ROWS, WIDTH, DecodeRunner

WAVES, STEPS = 3, 20


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    runner = DecodeRunner(PagedCache.make(ROWS, COLUMNS, WIDTH, device), device)
    runner.capture()
    prompts = [torch.randint(2, 80, (ROWS,)).pin_memory() for _ in range(WAVES)]
    tokens = torch.zeros(WAVES, STEPS, ROWS, dtype=torch.long, device=device)
    scores = torch.zeros(WAVES, STEPS, ROWS, device=device)
    for wave, prompt in enumerate(prompts):
        runner.admit(prompt)
        for step in range(STEPS):
            runner.run()
            tokens[wave, step].copy_(runner.tokens)
            scores[wave, step].copy_(runner.scores)
    torch.save((tokens.cpu(), scores.cpu()), "answers.pt")


if __name__ == "__main__":
    main()
