"""Steps of torchode, xitorch and torchquad: differential equations, linear operators, integrals."""

import torch
from torch import nn


def integrated_batch(method, controller, dense=True, train=False, **options):
    """A batch of initial values, each with its own steps."""

    def build(device):
        import torchode as to

        class Field(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

            def forward(self, t, y):
                return self.net(y) - 0.1 * y

        term = to.ODETerm(Field().to(device))
        if controller == "pid":
            control = to.PIDController(1e-4, 1e-3, 0.2, 0.3, 0.0, term=term, dt_max=0.5)
        elif controller == "integral":
            control = to.IntegralController(1e-4, 1e-3, term=term)
        else:
            control = to.FixedStepController()
        name, made = options.get("adjoint", "AutoDiffAdjoint"), getattr(to, method)(term=term)
        adjoint = (
            to.AutoDiffAdjoint(made, control) if name == "AutoDiffAdjoint" else getattr(to, name)(term, made, control)
        )

        def step(y0, t_eval):
            problem = (
                to.InitialValueProblem(y0=y0, t_eval=t_eval)
                if dense
                else to.InitialValueProblem(y0=y0, t_start=t_eval[:, 0], t_end=t_eval[:, -1])
            )
            dt0 = torch.full((y0.shape[0],), 0.1, device=y0.device) if controller == "fixed" else None
            solution = adjoint.solve(problem, dt0=dt0)
            if train:
                solution.ys.square().mean().backward()
            return solution.ys.detach(), solution.status, solution.stats

        return step, (torch.randn(4, 2, device=device), torch.linspace(0, 1, 6, device=device).repeat(4, 1))

    return build


adaptive_batch_training = integrated_batch("Tsit5", "integral", train=True)
controlled_batch = integrated_batch("Dopri5", "pid")
fixed_batch = integrated_batch("Heun", "fixed", dense=False)
euler_batch_training = integrated_batch("Euler", "fixed", train=True)
backsolved_batch_training = integrated_batch(
    "Dopri5", "integral", dense=False, train=True, adjoint="JointBacksolveAdjoint"
)


def solved_operators(device):
    """Linear equations with an operator, by several methods."""
    import xitorch
    from xitorch.linalg import solve

    def step(matrix, b):
        operator = xitorch.LinearOperator.m(matrix, is_hermitian=True)
        return [solve(operator, b, method=name) for name in ("exactsolve", "cg", "bicgstab", "gmres")]

    root = torch.randn(6, 6, device=device, dtype=torch.double)
    return step, (
        root @ root.T + 6 * torch.eye(6, device=device, dtype=torch.double),
        torch.randn(6, 2, device=device, dtype=torch.double),
    )


def eigenpairs_training(device):
    import xitorch
    from xitorch.linalg import svd, symeig

    raw = nn.Parameter(torch.randn(8, 8, device=device, dtype=torch.double))

    def step():
        matrix = raw @ raw.T + torch.diag(torch.arange(8, device=raw.device, dtype=raw.dtype))
        operator = xitorch.LinearOperator.m(matrix, is_hermitian=True)
        values, vectors = symeig(operator, neig=2, mode="lowest", method="davidson")
        exact, _ = symeig(operator, neig=3, method="exacteig")
        _, s, _ = svd(xitorch.LinearOperator.m(raw, is_hermitian=False), k=2)
        (values.sum() + exact.sum() + s.sum()).backward()
        return values.detach(), vectors.detach()

    return step, ()


def found_roots(device):
    from xitorch.optimize import equilibrium, rootfinder

    weight = nn.Parameter(torch.randn(3, 3, device=device, dtype=torch.double) * 0.2)

    def residual(y, w):
        return torch.tanh(y @ w + 0.3) + y / 2

    def fixed(y, w):
        return torch.tanh(y @ w + 0.3) / 2

    def step(y0):
        root = rootfinder(residual, y0, params=(weight,), method="broyden1", f_tol=1e-8)
        point = equilibrium(fixed, y0, params=(weight,), method="linearmixing", f_tol=1e-6)
        (root.sum() + point.sum()).backward()
        return root.detach()

    return step, (torch.zeros(2, 3, device=device, dtype=torch.double),)


def minimised_function(device):
    from xitorch.optimize import minimize

    weight = nn.Parameter(torch.rand(3, device=device, dtype=torch.double) + 0.5)

    def loss(y, w):
        return ((y - 1).square() * w).sum()

    def step(y0):
        found = minimize(loss, y0, params=(weight,), method="gd", step=0.1, maxiter=20)
        other = minimize(loss, y0, params=(weight,), method="broyden1")
        return found.detach(), other.detach()

    return step, (torch.zeros(3, device=device, dtype=torch.double),)


def integrated_function(device):
    from xitorch.integrate import SQuad, mcquad, quad, solve_ivp

    rate = nn.Parameter(torch.tensor(0.5, device=device, dtype=torch.double))

    def step(ts, y0, upper):
        area = quad(lambda x, a: torch.exp(-a * x), torch.zeros_like(upper), upper, params=(rate,), n=16)
        path = solve_ivp(lambda t, y, a: -a * y + t, ts, y0, params=(rate,), method="rk45")
        fixed = solve_ivp(lambda t, y, a: -a * y, ts, y0, params=(rate,), method="rk4")
        mean = mcquad(
            lambda x: x.square().sum(), lambda x: -x.square().sum() / 2, y0, method="mh", nsamples=20, nburnout=5
        )
        sampled = SQuad(ts, method="cspline").integrate(ts.sin())
        (area + path.sum() + fixed.sum()).sum().backward()
        return area.detach(), mean, sampled

    double = {"device": device, "dtype": torch.double}
    return step, (torch.linspace(0, 1, 6, **double), torch.ones(2, **double), torch.tensor(1.0, **double))


def interpolated_values(device):
    from xitorch.interpolate import Interp1D

    def step(x, y, at):
        spline = Interp1D(x, y, method="cspline", bc_type="natural")
        linear = Interp1D(x, method="linear", extrap="bound")
        return spline(at), linear(at * 2, y)

    return step, (
        torch.linspace(0, 1, 8, device=device).flip(0),
        torch.rand(8, device=device),
        torch.rand(5, device=device),
    )


def quadratures(name, **options):
    def build(device):
        import torchquad

        if device.type == "cuda":
            torchquad.set_up_backend("torch", data_type="float32")
        integrator = getattr(torchquad, name)()

        def f(x):
            return torch.sin(x[:, 0]) + torch.exp(x[:, 1])

        def step(domain):
            return integrator.integrate(f, dim=2, integration_domain=domain, **options)

        return step, (torch.tensor([[0.0, 1.0], [-1.0, 1.0]], device=device),)

    return build


trapezoid_area = quadratures("Trapezoid", N=101)
boole_area = quadratures("Boole", N=125)
gauss_area = quadratures("GaussLegendre", N=64)
random_area = quadratures("MonteCarlo", N=200, seed=3)
adaptive_area = quadratures("VEGAS", N=800, max_iterations=4, seed=1)
careful_adaptive_area = quadratures(
    "VEGAS", N=800, max_iterations=4, use_grid_improve=True, eps_rel=1e-2, use_warmup=False, return_error=True
)
