"""Serves a value network while a thread polls for the newer weights that a learner publishes."""

import threading
import time

import torch
import torch.nn as nn

OBS, WIDTH, BATCH = 16, 48, 32


class ValueNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(OBS))
        self.body = nn.Sequential(nn.Linear(OBS, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))

    def forward(self, obs):
        return self.body(obs - self.mean).squeeze(-1)


class Learner:
    """Stands for the process that trains; it publishes pinned tensors."""

    def __init__(self, net):
        self.version = 0
        self.weights = {name: p.detach().cpu().pin_memory() for name, p in net.named_parameters()}
        self.mean = torch.zeros(OBS).pin_memory()

    def publish(self):
        self.weights = {name: (value * 0.995).pin_memory() for name, value in self.weights.items()}
        self.mean = (self.mean + 0.01).pin_memory()
        self.version += 1

    def newest(self, known):
        return None if known == self.version else (self.version, self.weights, self.mean)


class Poller(threading.Thread):
    def __init__(self, net, learner):
        super().__init__(daemon=True)
        self.net = net
        self.learner = learner
        self.known = 0
        self.stream = torch.cuda.Stream()
        self.stopped = threading.Event()

    @torch.no_grad()
    def run(self):
        params = dict(self.net.named_parameters())
        while not self.stopped.wait(0.002):
            news = self.learner.newest(self.known)
            if news is None:
                continue
            self.known, weights, mean = news
            with torch.cuda.stream(self.stream):
                for name, value in weights.items():
                    params[name].copy_(value, non_blocking=True)
                self.net.mean = mean.to("cuda", non_blocking=True)


class ValueRunner:
    def __init__(self, net):
        self.net = net
        self.obs = torch.zeros(BATCH, OBS, device="cuda")
        with torch.no_grad():
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                net(self.obs)
                net(self.obs)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.value = net(self.obs)

    def __call__(self, obs):
        self.obs.copy_(obs)
        self.graph.replay()
        return self.value


def main():
    torch.manual_seed(2)
    net = ValueNet().cuda()
    learner = Learner(net)
    runner = ValueRunner(net)
    poller = Poller(net, learner)
    poller.start()
    served = []
    for step in range(40):
        obs = torch.randn(BATCH, OBS, device="cuda")
        served.append(runner(obs).cpu())
        if step % 10 == 9:
            learner.publish()
            time.sleep(0.005)
    poller.stopped.set()
    poller.join()
    torch.save(torch.stack(served), "values.pt")


if __name__ == "__main__":
    main()
