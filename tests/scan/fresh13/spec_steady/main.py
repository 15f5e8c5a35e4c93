"""Speculative decoding for a fixed number of rounds: nothing is read on the host until the end."""

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
        self.scheduler = Scheduler(BATCH, LIMIT, AHEAD + 1)

    def start(self):
        self.draft.capture()
        self.target.capture()

    def round(self, tokens):
        base = self.scheduler.lengths
        drafts, current = [], tokens
        for ahead in range(AHEAD):
            current = self.draft.propose(current, base + ahead)
            drafts.append(current)
        drafts = torch.stack(drafts, 1)
        window = torch.cat([tokens.unsqueeze(1), drafts], 1)
        choice = self.target.verify(window, base.unsqueeze(1) + self.scheduler.steps)
        return self.scheduler.commit(drafts, choice)


@torch.inference_mode()
def main():
    engine = Engine()
    engine.start()
    tokens = torch.arange(BATCH, device="cuda") + 5
    for _ in range(LIMIT):
        tokens = engine.round(tokens)
    torch.save(engine.scheduler.text, "text.pt")


if __name__ == "__main__":
    main()
