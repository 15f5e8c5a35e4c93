"""Model-predictive control of a planar vehicle with a cross-entropy planner; planner iterations run as one graph."""
import math

import torch


class BicycleModel:
    def __init__(self, dt=0.1, wheelbase=0.4, drag=0.05):
        self.dt = dt
        self.wheelbase = wheelbase
        self.drag = drag

    def advance(self, state, action):
        x, y, heading, speed = state.unbind(-1)
        steer, throttle = (0.5 * action.tanh()).unbind(-1)
        speed_next = speed + self.dt * (4.0 * throttle - self.drag * speed)
        heading_next = heading + self.dt * speed * torch.tan(steer) / self.wheelbase
        return torch.stack((
            x + self.dt * speed * torch.cos(heading),
            y + self.dt * speed * torch.sin(heading),
            heading_next,
            speed_next,
        ), dim=-1)


class Course:
    """Waypoints on an ellipse; the active one advances when the vehicle has come near enough in time."""

    def __init__(self, count=8, a=3.0, b=2.0):
        self.points = [(a * math.cos(2 * math.pi * k / count), b * math.sin(2 * math.pi * k / count))
                       for k in range(count)]
        self.active = 1

    @property
    def goal(self):
        return self.points[self.active % len(self.points)]

    def advance(self):
        self.active += 1


class CrossEntropyPlanner:
    def __init__(self, model, course, device, horizon=10, samples=96, elites=12, rounds=3):
        self.model, self.course = model, course
        self.horizon, self.samples, self.elites, self.rounds = horizon, samples, elites, rounds
        self.state = torch.zeros(4, device=device)
        self.mean = torch.zeros(horizon, 2, device=device)
        self.spread = torch.ones(horizon, 2, device=device)
        self.graph = None
        self.plan = None

    def _cost(self, actions):
        gx, gy = self.course.goal
        state = self.state.expand(self.samples, 4)
        cost = actions.square().sum((1, 2)) * 1e-3
        for t in range(self.horizon):
            state = self.model.advance(state, actions[:, t])
            cost = cost + (state[:, 0] - gx).square() + (state[:, 1] - gy).square()
        return cost

    def _optimise(self):
        mean, spread = self.mean, self.spread
        for _ in range(self.rounds):
            noise = torch.randn(self.samples, self.horizon, 2, device=mean.device)
            actions = mean + spread * noise
            best = self._cost(actions).topk(self.elites, largest=False).indices
            elite = actions.index_select(0, best)
            mean = elite.mean(0)
            spread = elite.std(0).clamp_min(0.05)
        return mean

    def prepare(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._optimise()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.plan = self._optimise()

    def act(self, state):
        self.state.copy_(state)
        self.graph.replay()
        self.mean = torch.cat((self.plan[1:], self.plan[-1:]))
        return self.plan[0]


def drive(planner, steps, device):
    plant = BicycleModel(drag=0.08)
    state = torch.tensor([3.0, 0.0, 1.57, 0.5], device=device)
    executed, path = [], []
    for step in range(steps):
        action = planner.act(state)
        executed.append(action)
        state = plant.advance(state, action)
        path.append(state)
        if step % 6 == 5:
            planner.course.advance()
    effort = torch.stack(executed).diff(dim=0).square().mean()
    return torch.stack(path), effort


def main():
    torch.manual_seed(4)
    device = torch.device("cuda")
    planner = CrossEntropyPlanner(BicycleModel(), Course(), device)
    planner.prepare()
    path, effort = drive(planner, 24, device)
    print("final position", [round(v, 3) for v in path[-1, :2].tolist()])
    print("jerk", round(effort.item(), 5))


if __name__ == "__main__":
    main()
