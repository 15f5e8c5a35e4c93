"""Batched arm simulator: commands go up on a copy stream, the physics of a control step is one graph."""
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
    """The arms from a start pose on; one replay is one control step."""

    def __init__(self, model, start):
        self.pose = start.clone()
        self.command = torch.zeros(ARMS, ACT, device=DEV)
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            model.physics(self.pose, self.command)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.pose.copy_(model.physics(self.pose, self.command))

    def step(self, command, copies):
        with torch.cuda.stream(copies):
            self.command.copy_(command, non_blocking=True)
        self.graph.replay()
        return self.pose


def rollout(model, starts, plan):
    copies = torch.cuda.Stream()
    seen = torch.zeros(EPISODES, HORIZON, ARMS, JOINTS, device=DEV)
    for episode, start in enumerate(starts):
        env = ArmEnv(model, start)
        for t in range(HORIZON):
            seen[episode, t].copy_(env.step(plan[episode, t], copies))
    torch.cuda.synchronize()
    return seen


@torch.no_grad()
def main():
    model = Model()
    g = torch.Generator().manual_seed(6)
    starts = (torch.randn(EPISODES, ARMS, JOINTS, generator=g) * 0.1).to(DEV)
    plan = torch.randn(EPISODES, HORIZON, ARMS, ACT, generator=g).pin_memory()

    seen = rollout(model, starts, plan)

    good = True
    for episode, pose in enumerate(starts):
        for t in range(HORIZON):
            pose = model.physics(pose, plan[episode, t].to(DEV))
            good = good and torch.allclose(seen[episode, t], pose, rtol=1e-2, atol=1e-2)
    print("values right" if good else "values wrong")


if __name__ == "__main__":
    main()
