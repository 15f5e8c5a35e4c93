"""Writes text with a draft model; all rows advance by the number of guesses that every row accepts."""

import torch
from graphs import CheckRunner, DraftRunner
from models import ROWS, Checker, Draft


def speculate(draft, checker, token, limit):
    place = torch.zeros(ROWS, dtype=torch.long, device="cuda")
    text, rounds, written = [token.unsqueeze(1)], 0, 0
    while written < limit:
        guesses = draft.propose(token, place)
        answer, right = checker.check(token, guesses, place)
        step = right.min().item() + 1
        text.append(answer[:, :step])
        token = answer[:, step - 1].clone()
        place = place + step
        written += step
        rounds += 1
    return torch.cat(text, 1), rounds


@torch.inference_mode()
def main():
    torch.manual_seed(20)
    draft = DraftRunner(Draft().cuda().eval())
    checker = CheckRunner(Checker().cuda().eval())
    results = []
    for number in range(4):
        token = torch.full((ROWS,), 5 + number, dtype=torch.long, device="cuda")
        text, rounds = speculate(draft, checker, token, limit=40)
        results.append((text, rounds))
    torch.save([(text.cpu(), rounds) for text, rounds in results], "text.pt")


if __name__ == "__main__":
    main()
