"""The actor: one graph of the policy, replayed on a stream of its own that is ordered both ways."""

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

    def record(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.policy(self.obs)
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.action, self.value = self.policy(self.obs)
        torch.cuda.current_stream().wait_stream(self.stream)

    def pull(self):
        """Copies the newest weights into the tensors that the graph reads, after the learner's event."""
        try:
            weights, done = self.learner.news.get_nowait()
        except queue.Empty:
            return
        current = torch.cuda.current_stream()
        current.wait_event(done)
        for mine, new in zip(self.policy.state_dict().values(), weights, strict=True):
            mine.copy_(new)
            new.record_stream(current)

    def act(self, obs):
        current = torch.cuda.current_stream()
        self.obs.copy_(obs)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            self.graph.replay()
        current.wait_stream(self.stream)
        return self.action, self.value
