"""The loop."""
import torch

from .batching import Scheduler, Sequence
from .model import Model
from .runner import Runner


class Server:
    def __init__(self, device, sizes=(1, 2, 4)):
        self.scheduler = Scheduler(sizes[-1])
        self.runner = Runner(Model().to(device), sizes, device)
        self.runner.capture()

    def serve(self, requests, stop=8):
        for _ in range(requests):
            self.scheduler.add(Sequence())
        served = 0
        while batch := self.scheduler.next_batch():
            tokens = self.runner.execute(batch)
            for seq, token in zip(batch, tokens.tolist()):
                seq.tokens.append(token)
            served += len(batch)
            self.scheduler.retire(stop)
        return served


def main():
    print(Server(torch.device("cuda:0")).serve(6))


if __name__ == "__main__":
    main()
