"""RL actor: environment worker writes observations on its own stream, the policy is a graph."""
import queue
import threading

import torch
from torch import nn

ENVS, OBS, ACTIONS, STEPS = 128, 48, 6, 40


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh())
        self.pi = nn.Linear(512, ACTIONS)

    def forward(self, obs):
        return self.pi(self.body(obs)).argmax(-1)


class EnvWorker(threading.Thread):
    def __init__(self, obs, frames, ready, consumed):
        super().__init__(daemon=True)
        self.obs, self.frames = obs, frames
        self.ready, self.consumed = ready, consumed
        self.stream = torch.cuda.Stream()

    def run(self):
        for frame in self.frames:
            self.stream.wait_event(self.consumed.get(timeout=30))
            with torch.cuda.stream(self.stream):
                self.obs.copy_(frame, non_blocking=True)
                written = torch.cuda.Event()
                written.record(self.stream)
            self.ready.put(written)


def capture_policy(policy, obs):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            policy(obs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        actions = policy(obs)
    return graph, actions


@torch.no_grad()
def main():
    device = torch.device("cuda")
    torch.manual_seed(10)
    policy = Policy().to(device)
    obs = torch.zeros(ENVS, OBS, device=device)
    graph, actions = capture_policy(policy, obs)
    counts = torch.zeros(ACTIONS, device=device)
    one = torch.ones(ENVS, device=device)

    frames = torch.empty(STEPS, ENVS, OBS, pin_memory=True)
    frames.normal_()
    ready, consumed = queue.Queue(), queue.Queue()
    worker = EnvWorker(obs, frames, ready, consumed)
    main_stream = torch.cuda.current_stream()
    consumed.put(main_stream.record_event())
    worker.start()
    for _ in range(STEPS):
        main_stream.wait_event(ready.get(timeout=30))
        graph.replay()
        consumed.put(main_stream.record_event())
        counts.scatter_add_(0, actions, one)
    worker.join()
    print("action histogram", [int(c) for c in counts.tolist()])


if __name__ == "__main__":
    main()
