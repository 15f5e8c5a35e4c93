"""Batched arm simulator: commands go up on a copy stream, the physics of a control step is one graph.

One environment for all episodes.  The copy stream waits until the last replay has read its
command, the replay until its own command is there; the host waits for neither.
"""
import torch

DEV = torch.device("cuda")
ARMS, JOINTS, ACT, SUBSTEPS, EPISODES, HORIZON = 256, 512, 32, 80, 4, 5


class Model:
    def __init__(self):
        g = torch.Generator().manual_seed(31)
        self.coupling = (torch.randn(JOINTS, JOINTS, generator=g) / JOINTS ** 0.5).to(DEV)
        self.motor = (torch.randn(ACT, JOINTS, generator=g) / ACT ** 0.5).to(DEV)

    def physics(self, pose, command):
        for _ in range(SUBSTEPS):
            pose = pose + 0.01 * torch.tanh(pose @ self.coupling)
        return pose + command @ self.motor


class ArmEnv:
    """The arms; one replay is one control step."""

    def __init__(self, model):
        self.pose = torch.zeros(ARMS, JOINTS, device=DEV)
        self.command = torch.zeros(ARMS, ACT, device=DEV)
        self.copies = torch.cuda.Stream()
        self.taken = torch.cuda.Event()
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            model.physics(self.pose, self.command)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.pose.copy_(model.physics(self.pose, self.command))

    def reset(self, start):
        self.pose.copy_(start)

    def step(self, command):
        self.copies.wait_event(self.taken)
        with torch.cuda.stream(self.copies):
            self.command.copy_(command, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.copies)
        self.graph.replay()
        self.taken.record()
        return self.pose


def rollout(env, starts, plan):
    seen = torch.zeros(EPISODES, HORIZON, ARMS, JOINTS, device=DEV)
    for episode, start in enumerate(starts):
        env.reset(start)
        for t in range(HORIZON):
            seen[episode, t].copy_(env.step(plan[episode, t]))
    torch.cuda.synchronize()
    return seen


@torch.no_grad()
def main():
    model = Model()
    g = torch.Generator().manual_seed(6)
    starts = (torch.randn(EPISODES, ARMS, JOINTS, generator=g) * 0.1).to(DEV)
    plan = torch.randn(EPISODES, HORIZON, ARMS, ACT, generator=g).pin_memory()

    env = ArmEnv(model)
    seen = rollout(env, starts, plan)

    good = True
    for episode, pose in enumerate(starts):
        for t in range(HORIZON):
            pose = model.physics(pose, plan[episode, t].to(DEV))
            good = good and torch.allclose(seen[episode, t], pose, rtol=1e-2, atol=1e-2)
    print("values right" if good else "values wrong")


if __name__ == "__main__":
    main()
