"""Regularised particle filter for a target seen by range and bearing sensors."""
import logging
import math
from dataclasses import dataclass

import torch

log = logging.getLogger("tracker")


@dataclass
class Model:
    dt: float = 0.5
    process: float = 0.05
    range_noise: float = 0.3
    bearing_noise: float = 0.05


class Sensors:
    def __init__(self, places, device):
        self.places = torch.tensor(places, dtype=torch.float32, device=device)

    def measure(self, x):
        d = x[:, None, :2] - self.places
        return d.norm(dim=-1), torch.atan2(d[..., 1], d[..., 0])


class Cloud:
    def __init__(self, count, device):
        self.device = device
        self.x = torch.randn(count, 4, device=device)
        self.log_w = torch.full((count,), -math.log(count), device=device)
        self.offsets = torch.arange(count, device=device) / count

    def weights(self):
        return self.log_w.softmax(0)

    def mean_and_cov(self):
        w = self.weights().unsqueeze(-1)
        mean = (w * self.x).sum(0)
        d = self.x - mean
        return mean, (w * d).t() @ d

    def effective(self):
        return 1.0 / self.weights().square().sum()

    def resample(self):
        start = torch.rand((), device=self.device) / self.offsets.shape[0]
        cum = self.weights().cumsum(0)
        picked = torch.searchsorted(cum, self.offsets + start).clamp_max(self.x.shape[0] - 1)
        self.x.copy_(self.x[picked])
        self.log_w.fill_(-math.log(self.x.shape[0]))


class Tracker:
    """`step` moves and weighs the cloud; the graph of it is used if it can be captured."""

    def __init__(self, model, sensors, count, device):
        self.model, self.sensors, self.device = model, sensors, device
        self.cloud = Cloud(count, device)
        self.ranges = torch.zeros(sensors.places.shape[0], device=device)
        self.bearings = torch.zeros_like(self.ranges)
        self.estimate = torch.zeros(4, device=device)
        self.graph = None

    def propagate(self):
        dt = self.model.dt
        move = torch.tensor([[1, 0, dt, 0], [0, 1, 0, dt], [0, 0, 1, 0], [0, 0, 0, 1.0]], device=self.device)
        _, cov = self.cloud.mean_and_cov()
        factor = torch.linalg.cholesky(cov + 1e-4 * torch.eye(4, device=self.device))
        bandwidth = 0.2 * self.cloud.x.shape[0] ** (-1 / 8)
        noise = torch.randn_like(self.cloud.x)
        self.cloud.x.copy_(self.cloud.x @ move.t() + bandwidth * noise @ factor.t())
        self.cloud.x[:, 2:].add_(self.model.process * torch.randn_like(self.cloud.x[:, 2:]))

    def weigh(self):
        r, b = self.sensors.measure(self.cloud.x)
        turn = torch.remainder(b - self.bearings + math.pi, 2 * math.pi) - math.pi
        fit = ((r - self.ranges) / self.model.range_noise).square()
        fit = fit + (turn / self.model.bearing_noise).square()
        self.cloud.log_w.sub_(0.5 * fit.sum(-1))
        self.cloud.log_w.sub_(self.cloud.log_w.logsumexp(0))

    def step(self):
        self.propagate()
        self.weigh()
        self.estimate.copy_(self.cloud.mean_and_cov()[0])

    def capture(self):
        stream = torch.cuda.Stream(self.device)
        main = torch.cuda.current_stream(self.device)
        stream.wait_stream(main)
        with torch.cuda.stream(stream):
            self.step()
        main.wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=stream):
                self.step()
            self.graph = graph
        except RuntimeError:
            log.info("tracking without a graph")

    def observe(self, ranges, bearings):
        self.ranges.copy_(ranges)
        self.bearings.copy_(bearings)
        if self.graph is not None:
            self.graph.replay()
        else:
            self.step()
        if self.cloud.effective() < 0.5 * self.cloud.x.shape[0]:
            self.cloud.resample()
        return self.estimate.clone()


def simulate(sensors, model, steps, device):
    truth = torch.tensor([[0.0, 1.0, 0.4, -0.1]], device=device)
    for _ in range(steps):
        truth[:, :2] += model.dt * truth[:, 2:]
        truth[:, 2:] += 0.02 * torch.randn_like(truth[:, 2:])
        r, b = sensors.measure(truth)
        yield truth[0].clone(), r[0] + 0.2 * torch.randn_like(r[0]), b[0] + 0.03 * torch.randn_like(b[0])


@torch.no_grad()
def main():
    logging.basicConfig(level=logging.WARNING)
    device = torch.device("cuda", 0)
    torch.manual_seed(14)
    model = Model()
    sensors = Sensors([(-4.0, 0.0), (5.0, 3.0), (0.0, -6.0)], device)
    tracker = Tracker(model, sensors, 512, device)
    tracker.capture()
    errors = []
    for truth, ranges, bearings in simulate(sensors, model, 25, device):
        estimate = tracker.observe(ranges, bearings)
        errors.append((estimate[:2] - truth[:2]).norm())
    print(f"mean error {torch.stack(errors).mean().item():.3f}")


if __name__ == "__main__":
    main()
