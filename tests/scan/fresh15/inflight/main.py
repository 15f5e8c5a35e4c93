"""Answers a queue of prompts with in-flight batching."""

import torch
from cache import PagedCache
from runner import WIDTH, DecodeRunner
from scheduler import Request, Scheduler


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    cache = PagedCache.make(24, WIDTH, device)
    runner = DecodeRunner(cache, device)
    runner.capture()
    scheduler = Scheduler(runner, cache)
    for wave in range(3):
        for number in range(10):
            limit = 31 if number % 2 == 0 else 6
            scheduler.waiting.append(Request(f"{wave}-{number}", [2 + number, 9, 4 + wave], limit))
        while scheduler.waiting or scheduler.running:
            scheduler.step()
        cache.scrub()
    report = {r.name: (r.tokens, torch.stack(r.scores).cpu()) for r in scheduler.finished if r.scores}
    torch.save(report, "answers.pt")


if __name__ == "__main__":
    main()
