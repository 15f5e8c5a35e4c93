"""Planning by random shooting: a recorded step perturbs the plan; the global random stream must not notice the planner."""

import torch
from torch import nn

PLANS, HORIZON, STATE, ACTION, ROUNDS = 64, 8, 6, 2, 16


class Dynamics(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(STATE + ACTION, 32), nn.Tanh(), nn.Linear(32, STATE))

    def forward(self, state: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        return state + 0.1 * self.body(torch.cat((state, action), dim=-1))


class Planner:
    def __init__(self, dynamics: Dynamics, device: torch.device) -> None:
        self.dynamics = dynamics
        self.start = torch.zeros(STATE, device=device)
        self.mean = torch.zeros(HORIZON, ACTION, device=device)
        self.best = torch.zeros((), device=device)
        self.trace: list[torch.Tensor] = []
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.improve()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.improve()
        self.mean.zero_()

    def improve(self) -> None:
        noise = torch.randn(PLANS, HORIZON, ACTION, device=self.mean.device)
        plans = self.mean + 0.4 * noise
        state = self.start.expand(PLANS, STATE)
        cost = torch.zeros(PLANS, device=self.mean.device)
        for step in range(HORIZON):
            state = self.dynamics(state, plans[:, step])
            cost = cost + state.square().sum(-1)
        weight = (-4 * cost).softmax(0)
        self.mean.copy_((weight[:, None, None] * plans).sum(0))
        self.best.copy_(cost.amin())

    def plan(self, start: torch.Tensor) -> None:
        self.start.copy_(start)
        self.mean.zero_()
        costs = []
        with torch.random.fork_rng(devices=[0]):
            torch.cuda.manual_seed(len(self.trace))
            for _ in range(ROUNDS):
                self.graph.replay()
                costs.append(self.best.clone())
        self.trace.append(torch.stack(costs))


def control(planner: Planner, steps: int, device: torch.device) -> torch.Tensor:
    state = torch.randn(STATE, device=device)
    for _ in range(steps):
        planner.plan(state)
        gust = 0.02 * torch.randn(STATE, device=device)
        state = planner.dynamics(state, planner.mean[0]) + gust
    return state


@torch.no_grad()
def main() -> None:
    torch.manual_seed(19)
    device = torch.device("cuda")
    planner = Planner(Dynamics().to(device), device)
    state = control(planner, 6, device)
    costs = torch.stack(planner.trace).cpu()
    print("first costs", [round(value, 4) for value in costs[:, 0].tolist()])
    print("last costs", [round(value, 4) for value in costs[:, -1].tolist()])
    print("final state", f"{state.norm().item():.4f}")


if __name__ == "__main__":
    main()
