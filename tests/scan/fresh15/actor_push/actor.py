"""The actor: one graph of the policy, replayed on a stream of its own."""

import queue

import torch
from net import ENVS, OBS


class Actor:
    def __init__(self, policy, learner):
        self.policy = policy
        self.learner = learner
        self.stream = torch.cuda.Stream()
        self.obs = torch.zeros(ENVS, OBS, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self.updates = 0

    def record(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.policy(self.obs)
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.action, self.value = self.policy(self.obs)

    def pull(self):
        try:
            weights, done = self.learner.news.get_nowait()
        except queue.Empty:
            return
        torch.cuda.current_stream().wait_event(done)
        self.policy.load_state_dict(weights, assign=True)
        self.updates += 1

    def act(self, obs):
        self.obs.copy_(obs)
        with torch.cuda.stream(self.stream):
            self.graph.replay()
        torch.cuda.current_stream().wait_stream(self.stream)
        return self.action, self.value.mean()
