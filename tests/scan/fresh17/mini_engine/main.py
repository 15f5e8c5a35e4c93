import torch

from model import ToyLM
from runner import Runner
from scheduler import Request, Scheduler


def main(device="cuda"):
    torch.manual_seed(0)
    device = torch.device(device)
    runner = Runner(ToyLM().to(device).eval(), device)
    scheduler = Scheduler(limit=4)
    for i in range(9):
        scheduler.add(Request(prompt=5 + i, slot=3 * i, want=3 + i % 3, temperature=0.0 if i < 5 else 0.8))
    done = 0
    while batch := scheduler.plan():
        runner.execute(batch)
        done += len(batch)
    print("tokens", done)


if __name__ == "__main__":
    main()
