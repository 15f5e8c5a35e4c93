"""A learner in a background thread; it puts each new set of weights in a queue."""

import copy
import queue
import threading

import torch


class Learner(threading.Thread):
    def __init__(self, policy, rounds):
        super().__init__(daemon=True)
        self.policy = copy.deepcopy(policy)
        self.rounds = rounds
        self.news = queue.Queue()
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def run(self):
        with torch.cuda.stream(self.stream), torch.no_grad():
            for number in range(self.rounds):
                for p in self.policy.parameters():
                    p.mul_(1.0 - 0.001 * (number + 1))
                self.policy.center.add_(0.01)
                weights = [value.clone() for value in self.policy.state_dict().values()]
                done = torch.cuda.Event()
                done.record()
                self.news.put((weights, done))
