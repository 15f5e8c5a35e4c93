"""A robot's policy that acts by replays while a thread writes tuned weights into it."""

import threading

import torch
import torch.nn as nn

SENSES, JOINTS, TICKS = 14, 4, 60


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(SENSES, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, JOINTS))

    def forward(self, senses):
        return self.net(senses).tanh()


class Tuner(threading.Thread):
    """Stands for a link to the trainer: takes a set of weights and uploads it on a stream of its own."""

    def __init__(self, policy, rounds):
        super().__init__(daemon=True)
        self.weights = list(policy.parameters())
        self.staging = [torch.empty(w.shape, pin_memory=True) for w in self.weights]
        self.stream = torch.cuda.Stream()
        self.rounds = rounds
        self.dice = torch.Generator().manual_seed(1)

    def receive(self):
        for block in self.staging:
            block.normal_(0.0, 0.1, generator=self.dice)

    @torch.no_grad()
    def run(self):
        for _ in range(self.rounds):
            self.receive()
            with torch.cuda.stream(self.stream):
                for weight, block in zip(self.weights, self.staging, strict=True):
                    weight.copy_(block, non_blocking=True)


class Controller:
    def __init__(self, policy):
        self.policy = policy
        self.senses = torch.zeros(1, SENSES, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.policy(self.senses)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.action = self.policy(self.senses)

    def act(self, senses):
        self.senses.copy_(senses.pin_memory(), non_blocking=True)
        self.graph.replay()
        return self.action[0].tolist()


class Arm:
    """A crude arm on the host."""

    def __init__(self):
        self.angles = [0.0] * JOINTS
        self.speeds = [0.0] * JOINTS

    def sense(self):
        rest = [0.0] * (SENSES - 2 * JOINTS)
        return torch.tensor([[*self.angles, *self.speeds, *rest]])

    def move(self, torques):
        self.speeds = [0.9 * v + 0.1 * t for v, t in zip(self.speeds, torques, strict=True)]
        self.angles = [a + 0.05 * v for a, v in zip(self.angles, self.speeds, strict=True)]


@torch.no_grad()
def main():
    torch.manual_seed(5)
    policy = Policy().cuda().eval()
    controller = Controller(policy)
    controller.capture()
    tuner = Tuner(policy, rounds=10)
    tuner.start()
    arm = Arm()
    for _ in range(TICKS):
        arm.move(controller.act(arm.sense()))
    tuner.join()
    print(arm.angles)


if __name__ == "__main__":
    main()
