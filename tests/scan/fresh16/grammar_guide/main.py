"""Writes some lists of numbers that follow a grammar."""

import json
from pathlib import Path

import torch
from grammar import Guide
from runner import GuidedRunner


def answer(runner, limit=24):
    guide = Guide()
    runner.begin()
    tokens = []
    while not guide.done and len(tokens) < limit:
        runner.allow(guide.allowed())
        token = runner.next_token()
        tokens.append(token)
        guide.advance(token)
    return tokens


@torch.inference_mode()
def main():
    torch.manual_seed(4)
    runner = GuidedRunner(torch.device("cuda"))
    runner.capture()
    answers = [answer(runner) for _ in range(5)]
    Path("lists.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
