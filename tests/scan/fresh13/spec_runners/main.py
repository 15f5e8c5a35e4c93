"""Speculative decoding: one runner drafts, one verifies, a scheduler counts."""

import torch
from models import pair
from runners import DraftRunner, TargetRunner
from scheduler import Scheduler

BATCH, AHEAD, LIMIT = 4, 3, 48


class Engine:
    def __init__(self):
        draft, target = pair("cuda")
        self.draft = DraftRunner(draft, BATCH)
        self.target = TargetRunner(target, BATCH, AHEAD + 1)
        self.scheduler = Scheduler(BATCH, LIMIT)

    def start(self):
        self.draft.capture()
        self.target.capture()

    def round(self, tokens):
        base = self.scheduler.positions()
        drafts, current = [], tokens
        for ahead in range(AHEAD):
            current = self.draft.propose(current, base + ahead)
            drafts.append(current)
        drafts = torch.stack(drafts, 1)
        window = torch.cat([tokens.unsqueeze(1), drafts], 1)
        places = base.unsqueeze(1) + torch.arange(AHEAD + 1, device="cuda")
        choice = self.target.verify(window, places)
        return self.scheduler.commit(drafts, choice)


@torch.inference_mode()
def main():
    engine = Engine()
    engine.start()
    tokens = torch.arange(BATCH, device="cuda") + 5
    rounds = 0
    while engine.scheduler.pending() and rounds < 60:
        tokens = engine.round(tokens)
        rounds += 1
    print("rounds", rounds)


if __name__ == "__main__":
    main()
