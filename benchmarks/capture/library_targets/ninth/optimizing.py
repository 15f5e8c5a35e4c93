"""Steps of torchzero, heavyball, cooper, conflictfree, fairret, torch_secorder and dattri: training, constraints."""

import torch
import torch.nn.functional as F
from torch import nn


def _data(device, outputs=1):
    return torch.randn(32, 6, device=device), torch.randn(32, outputs, device=device)


def _network(device, outputs=1):
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, outputs)).to(device)


def _with_closure(device, modules):
    import torchzero as tz

    model = _network(device)
    optimizer = tz.Optimizer(model.parameters(), *modules)

    def step(x, y):
        def closure(backward=True):
            loss = F.mse_loss(model(x), y)
            if backward:
                optimizer.zero_grad()
                loss.backward()
            return loss

        return optimizer.step(closure)

    return step, _data(device)


def soap_training(device):
    import torchzero as tz

    model = _network(device)
    optimizer = tz.Optimizer(model.parameters(), tz.m.ClipNorm(4), tz.m.SOAP(), tz.m.LR(1e-2))

    def step(x, y):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, _data(device)


def lbfgs_training(device):
    import torchzero as tz

    return _with_closure(device, (tz.m.LBFGS(history_size=5), tz.m.Backtracking()))


def newton_cg_training(device):
    import torchzero as tz

    return _with_closure(device, (tz.m.NewtonCG(maxiter=10), tz.m.Backtracking()))


def bfgs_training(device):
    import torchzero as tz

    return _with_closure(device, (tz.m.BFGS(), tz.m.StrongWolfe()))


def trust_region_training(device):
    import torchzero as tz

    return _with_closure(device, (tz.m.LevenbergMarquardt(tz.m.SR1(inverse=False)),))


def sophia_training(device):
    import torchzero as tz

    return _with_closure(device, (tz.m.SophiaH(), tz.m.LR(1e-2)))


def conjugate_training(device):
    import torchzero as tz

    return _with_closure(device, (tz.m.PolakRibiere(), tz.m.StrongWolfe(c2=0.1)))


def _foreach(device, name, **options):
    import heavyball

    heavyball.utils.compile_mode = None
    model = _network(device)
    optimizer = getattr(heavyball, name)(model.parameters(), lr=1e-3, **options)

    def step(x, y):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, _data(device)


def heavy_adam_training(device):
    return _foreach(device, "AdamW")


def heavy_soap_training(device):
    return _foreach(device, "SOAP")


def heavy_muon_training(device):
    return _foreach(device, "Muon")


def heavy_psgd_training(device):
    return _foreach(device, "PSGDKron")


def constrained_training(device):
    """A norm of the weights is kept below a bound."""
    import cooper

    class Bounded(cooper.ConstrainedMinimizationProblem):
        def __init__(self):
            super().__init__()
            multiplier = cooper.multipliers.DenseMultiplier(num_constraints=1, device=device)
            self.bound = cooper.Constraint(
                constraint_type=cooper.ConstraintType.INEQUALITY,
                formulation_type=cooper.formulations.Lagrangian,
                multiplier=multiplier,
            )

        def compute_cmp_state(self, model, inputs, targets):
            loss = F.mse_loss(model(inputs), targets)
            norm = sum(parameter.square().sum() for parameter in model.parameters()).reshape(1)
            return cooper.CMPState(
                loss=loss, observed_constraints={self.bound: cooper.ConstraintState(violation=norm - 1.0)}
            )

    model, problem = _network(device), Bounded()
    optimizer = cooper.optim.SimultaneousOptimizer(
        cmp=problem,
        primal_optimizers=torch.optim.Adam(model.parameters(), lr=1e-3),
        dual_optimizers=torch.optim.SGD(problem.dual_parameters(), lr=1e-2, maximize=True),
    )

    def step(x, y):
        out = optimizer.roll(compute_cmp_state_kwargs={"model": model, "inputs": x, "targets": y})
        return out.loss.detach()

    return step, _data(device)


def augmented_training(device):
    """An augmented Lagrangian, whose penalty coefficients grow with the violation."""
    import cooper

    class Moments(cooper.ConstrainedMinimizationProblem):
        def __init__(self):
            super().__init__()
            multiplier = cooper.multipliers.DenseMultiplier(num_constraints=2, device=device)
            penalty = cooper.penalty_coefficients.DensePenaltyCoefficient(init=torch.ones(2, device=device))
            self.moments = cooper.Constraint(
                constraint_type=cooper.ConstraintType.EQUALITY,
                formulation_type=cooper.formulations.AugmentedLagrangian,
                multiplier=multiplier,
                penalty_coefficient=penalty,
            )

        def compute_cmp_state(self, model, inputs, targets):
            outputs = model(inputs)
            violation = torch.stack([outputs.mean(), outputs.var() - 1.0])
            return cooper.CMPState(
                loss=F.mse_loss(outputs, targets),
                observed_constraints={self.moments: cooper.ConstraintState(violation=violation)},
            )

    model, problem = _network(device), Moments()
    optimizer = cooper.optim.AlternatingDualPrimalOptimizer(
        cmp=problem,
        primal_optimizers=torch.optim.Adam(model.parameters(), lr=1e-3),
        dual_optimizers=torch.optim.SGD(problem.dual_parameters(), lr=1.0, maximize=True),
    )
    updater = cooper.penalty_coefficients.MultiplicativePenaltyCoefficientUpdater(
        growth_factor=1.01, violation_tolerance=1e-3
    )

    def step(x, y):
        out = optimizer.roll(compute_cmp_state_kwargs={"model": model, "inputs": x, "targets": y})
        updater.step(out.cmp_state.observed_constraints)
        return out.loss.detach()

    return step, _data(device)


def extrapolated_training(device):
    """Constraints on samples, with multipliers that are indexed."""
    import cooper

    class Each(cooper.ConstrainedMinimizationProblem):
        def __init__(self):
            super().__init__()
            multiplier = cooper.multipliers.IndexedMultiplier(num_constraints=64, device=device)
            self.each = cooper.Constraint(
                constraint_type=cooper.ConstraintType.INEQUALITY,
                formulation_type=cooper.formulations.Lagrangian,
                multiplier=multiplier,
            )

        def compute_cmp_state(self, model, inputs, targets, rows):
            errors = (model(inputs) - targets).square().squeeze(1)
            state = cooper.ConstraintState(violation=errors - 0.5, constraint_features=rows)
            weights = sum(parameter.square().sum() for parameter in model.parameters())
            return cooper.CMPState(loss=weights, observed_constraints={self.each: state})

    model, problem = _network(device), Each()
    optimizer = cooper.optim.ExtrapolationConstrainedOptimizer(
        cmp=problem,
        primal_optimizers=cooper.optim.ExtraAdam(model.parameters(), lr=1e-3),
        dual_optimizers=cooper.optim.ExtraSGD(problem.dual_parameters(), lr=1e-2, maximize=True),
    )

    def step(x, y, rows):
        out = optimizer.roll(compute_cmp_state_kwargs={"model": model, "inputs": x, "targets": y, "rows": rows})
        return out.loss.detach()

    return step, (*_data(device), torch.randperm(64, device=device)[:32])


def _tasks(device, combine):
    from conflictfree.utils import apply_gradient_vector, get_gradient_vector

    model = _network(device, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x, y):
        gradients = []
        for task in range(2):
            optimizer.zero_grad()
            F.mse_loss(model(x)[:, task], y[:, task]).backward()
            gradients.append(get_gradient_vector(model))
        apply_gradient_vector(model, combine(gradients))
        optimizer.step()

    return step, _data(device, 2)


def config_training(device):
    from conflictfree.grad_operator import ConFIG_update

    return _tasks(device, ConFIG_update)


def surgery_training(device):
    from conflictfree.grad_operator import PCGradOperator

    return _tasks(device, PCGradOperator().calculate_gradient)


def impartial_training(device):
    from conflictfree.grad_operator import IMTLGOperator

    return _tasks(device, IMTLGOperator().calculate_gradient)


def momentum_training(device):
    """One loss an iteration, with the momentum of all."""
    from conflictfree.momentum_operator import PseudoMomentumOperator
    from conflictfree.utils import OrderedSliceSelector, apply_gradient_vector, get_gradient_vector

    model = _network(device, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    operator, selector = PseudoMomentumOperator(num_vectors=2), OrderedSliceSelector()

    def step(x, y):
        optimizer.zero_grad()
        index, task = selector.select(1, [0, 1])
        F.mse_loss(model(x)[:, task], y[:, task]).backward()
        apply_gradient_vector(model, operator.calculate_gradient(index, get_gradient_vector(model)))
        optimizer.step()

    return step, _data(device, 2)


def _fair(device, penalty, *extra):
    model = _network(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x, groups, target):
        optimizer.zero_grad()
        logit = model(x)
        loss = F.binary_cross_entropy_with_logits(logit, target)
        loss = loss + (penalty(logit, groups, target) if extra else penalty(logit, groups))
        loss.backward()
        optimizer.step()
        return loss.detach()

    groups = F.one_hot(torch.arange(32, device=device) % 3, 3).float()
    return step, (torch.randn(32, 6, device=device), groups, (torch.rand(32, 1, device=device) > 0.5).float())


def parity_training(device):
    from fairret.loss import NormLoss
    from fairret.statistic import PositiveRate

    return _fair(device, NormLoss(PositiveRate()))


def opportunity_training(device):
    from fairret.loss import LSELoss
    from fairret.statistic import TruePositiveRate

    return _fair(device, LSELoss(TruePositiveRate()), True)


def calibration_training(device):
    from fairret.loss import NormLoss
    from fairret.statistic import PositivePredictiveValue

    return _fair(device, NormLoss(PositivePredictiveValue(), p=2), True)


def score_gaps(device):
    """The F-scores of groups, and of all."""
    from fairret.statistic import Accuracy, FScore

    score, accuracy = FScore(beta=1.0), Accuracy()

    def step(prediction, groups, target):
        return score(prediction, groups, target), accuracy(prediction, None, target)

    groups = F.one_hot(torch.arange(32, device=device) % 3, 3).float()
    labels = (torch.rand(32, 1, device=device) > 0.5).float()
    return step, (torch.rand(32, 1, device=device), groups, labels)


def curvature(device):
    import torch_secorder as ts

    model = _network(device)

    def step(x, y):
        return ts.model_hessian_trace(model, F.mse_loss, x, y, num_samples=2)

    return step, _data(device)


def curvature_products(device):
    import torch_secorder as ts

    model = _network(device)
    direction = [torch.randn_like(parameter) for parameter in model.parameters()]

    def step(x, y):
        return ts.model_hvp(model, F.mse_loss, x, y, direction), ts.gauss_newton_product(
            model, F.mse_loss, x, y, direction
        )

    return step, _data(device)


def curvature_spectrum(device):
    import torch_secorder as ts

    model = _network(device)

    def step(x, y):
        values, _ = ts.estimate_eigenvalues(
            model, lambda m, a, b: F.mse_loss(m(a), b), x, y, num_eigenvalues=1, num_iterations=10, device=device
        )
        return values

    return step, _data(device)


def layer_statistics(device):
    import torch_secorder as ts

    model = _network(device)

    def step(x, y):
        fisher = ts.per_layer_fisher_diagonal(model, nn.MSELoss(), x, y)
        return ts.get_layer_curvature_stats(fisher)

    return step, _data(device)


def _energy(x, y, theta):
    return F.mse_loss(torch.tanh(x @ theta[:24].view(6, 4)) @ theta[24:28].view(4, 1), y)


def inverse_conjugate(device):
    """An inverse Hessian times vectors, for influence functions."""
    from dattri.func.hessian import ihvp_cg

    x, y = _data(device)
    product = ihvp_cg(lambda theta: _energy(x, y, theta), max_iter=5, regularization=1e-1)

    def step(theta, vectors):
        return product((theta,), vectors)

    return step, (torch.randn(28, device=device), torch.randn(3, 28, device=device))


def inverse_arnoldi(device):
    from dattri.func.hessian import ihvp_at_x_arnoldi

    x, y = _data(device)
    theta = torch.randn(28, device=device)

    def step(vectors):
        product = ihvp_at_x_arnoldi(
            lambda t: _energy(x, y, t), theta, max_iter=6, top_k=3, mode="rev-rev", regularization=1e-1
        )
        return product(vectors)

    return step, (torch.randn(3, 28, device=device),)


def inverse_series(device):
    from dattri.func.hessian import ihvp_lissa

    x, y = _data(device)
    product = ihvp_lissa(_energy, argnums=2, recursion_depth=10, batch_size=4, scaling=50.0)

    def step(theta, vectors):
        return product((x, y, theta), vectors, in_dims=(0, 0, None))

    return step, (torch.randn(28, device=device), torch.randn(3, 28, device=device))


def projected_gradients(device):
    from dattri.func.projection import random_project

    features = torch.randn(8, 200, device=device)
    project = random_project(features, 8, 16, 8, proj_seed=0, proj_type="normal", device=str(device))

    def step(gradients):
        return project(gradients)

    return step, (features,)


def tracing(device):
    """The influence of the training batch on a test batch, by gradients."""
    from dattri.algorithm.tracin import TracInAttributor
    from dattri.task import AttributionTask

    model = _network(device)

    def loss_of(parameters, data):
        x, y = data
        out = torch.func.functional_call(model, parameters, (x.unsqueeze(0),))
        return F.mse_loss(out, y.unsqueeze(0))

    task = AttributionTask(loss_func=loss_of, model=model, checkpoints=model.state_dict())
    attributor = TracInAttributor(
        task=task, weight_list=torch.ones(1, device=device), normalized_grad=True, device=str(device)
    )

    def step(x, y):
        dataset = torch.utils.data.TensorDataset(x, y)
        train = torch.utils.data.DataLoader(dataset, batch_size=16)
        with torch.no_grad():
            return attributor.attribute(train, torch.utils.data.DataLoader(dataset, batch_size=8))

    return step, _data(device)
