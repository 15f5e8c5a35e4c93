"""Steps of flow_matching: continuous, discrete and Riemannian paths, their losses and solvers."""

import torch
from torch import nn


class Velocity(nn.Module):
    def __init__(self, dim=2):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim + 1, 32), nn.SiLU(), nn.Linear(32, dim))

    def forward(self, x, t, **extras):
        return self.net(torch.cat([x, t.reshape(-1, 1).expand(x.shape[0], 1)], -1))


def velocity_training(path, scheduler=None):
    def build(device):
        from flow_matching import path as paths
        from flow_matching.path import scheduler as schedulers

        model = Velocity().to(device)
        made = getattr(paths, path)(getattr(schedulers, scheduler)()) if scheduler else getattr(paths, path)()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(x_1):
            x_0, t = torch.randn_like(x_1), torch.rand(len(x_1), device=x_1.device)
            sample = made.sample(t=t, x_0=x_0, x_1=x_1)
            loss = (model(sample.x_t, sample.t) - sample.dx_t).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach(), made.velocity_to_target(sample.dx_t, sample.x_t, sample.t[:, None])

        return step, (torch.randn(16, 2, device=device),)

    return build


transport_matching_training = velocity_training("CondOTProbPath")
cosine_matching_training = velocity_training("AffineProbPath", "CosineScheduler")
preserving_matching_training = velocity_training("AffineProbPath", "VPScheduler")


def discrete_matching_training(device):
    from flow_matching.loss import MixturePathGeneralizedKL
    from flow_matching.path import MixtureDiscreteProbPath
    from flow_matching.path.scheduler import PolynomialConvexScheduler

    path = MixtureDiscreteProbPath(scheduler=PolynomialConvexScheduler(n=2.0))
    model = nn.Sequential(nn.Embedding(8, 16), nn.Linear(16, 8)).to(device)
    loss_fn = MixturePathGeneralizedKL(path=path)

    def step(x_1):
        x_0, t = torch.randint_like(x_1, 8), torch.rand(len(x_1), device=x_1.device) * 0.99
        sample = path.sample(t=t, x_0=x_0, x_1=x_1)
        loss = loss_fn(logits=model(sample.x_t), x_1=sample.x_1, x_t=sample.x_t, t=sample.t)
        loss.backward()
        return loss.detach()

    return step, (torch.randint(0, 8, (8, 5), device=device),)


def geodesic_matching_training(device):
    from flow_matching.path import GeodesicProbPath
    from flow_matching.path.scheduler import CondOTScheduler
    from flow_matching.utils.manifolds import FlatTorus, Sphere

    paths = [GeodesicProbPath(scheduler=CondOTScheduler(), manifold=manifold()) for manifold in (FlatTorus, Sphere)]
    model = Velocity(3).to(device)

    def step(x_1):
        x_1 = nn.functional.normalize(x_1, dim=-1)
        loss = 0
        for path in paths:
            sample = path.sample(
                t=torch.rand(len(x_1), device=x_1.device),
                x_0=nn.functional.normalize(torch.randn_like(x_1), dim=-1),
                x_1=x_1,
            )
            loss = loss + (model(sample.x_t, sample.t) - sample.dx_t).square().mean()
        loss.backward()
        return loss.detach()

    return step, (torch.randn(8, 3, device=device),)


def solved_samples(device):
    from flow_matching.solver import ODESolver

    solver = ODESolver(velocity_model=Velocity().to(device))

    def step(x_init, grid):
        coarse = solver.sample(
            x_init=x_init, step_size=0.1, method="midpoint", time_grid=grid, return_intermediates=True
        )
        return coarse, solver.sample(x_init=x_init, step_size=None, method="dopri5", atol=1e-3, rtol=1e-3)

    return step, (torch.randn(8, 2, device=device), torch.linspace(0, 1, 4, device=device))


def likelihoods(device):
    from flow_matching.solver import ODESolver
    from torch.distributions import Independent, Normal

    solver = ODESolver(velocity_model=Velocity().to(device))
    base = Independent(Normal(torch.zeros(2, device=device), torch.ones(2, device=device)), 1)

    def step(x_1):
        guessed = solver.compute_likelihood(x_1=x_1, method="midpoint", step_size=0.2, log_p0=base.log_prob)
        return guessed, solver.compute_likelihood(
            x_1=x_1, method="euler", step_size=0.25, exact_divergence=True, log_p0=base.log_prob
        )

    return step, (torch.randn(8, 2, device=device),)


def discrete_samples(device):
    from flow_matching.path import MixtureDiscreteProbPath
    from flow_matching.path.scheduler import PolynomialConvexScheduler
    from flow_matching.solver import MixtureDiscreteEulerSolver
    from flow_matching.utils import ModelWrapper

    class Denoiser(ModelWrapper):
        def forward(self, x, t, **extras):
            return torch.softmax(self.model(x), -1)

    model = Denoiser(nn.Sequential(nn.Embedding(8, 16), nn.Linear(16, 8)).to(device))
    path = MixtureDiscreteProbPath(scheduler=PolynomialConvexScheduler(n=2.0))
    solver = MixtureDiscreteEulerSolver(model=model, path=path, vocabulary_size=8)
    corrected = MixtureDiscreteEulerSolver(
        model=model, path=path, vocabulary_size=8, source_distribution_p=torch.full((8,), 1 / 8, device=device)
    )

    def step(x_init, grid):
        first = solver.sample(x_init=x_init, step_size=0.25)
        return first, corrected.sample(
            x_init=x_init, step_size=0.2, div_free=0.5, time_grid=grid, return_intermediates=True
        )

    return step, (torch.randint(0, 8, (4, 5), device=device), torch.linspace(0, 0.98, 3, device=device))


def riemannian_samples(device):
    from flow_matching.solver import RiemannianODESolver
    from flow_matching.utils.manifolds import Sphere

    solver = RiemannianODESolver(manifold=Sphere(), velocity_model=Velocity(3).to(device))

    def step(x_init):
        x_init = nn.functional.normalize(x_init, dim=-1)
        return solver.sample(x_init=x_init, step_size=0.2, method="midpoint"), solver.sample(
            x_init=x_init, step_size=0.25, method="rk4", projx=False
        )

    return step, (torch.randn(6, 3, device=device),)
