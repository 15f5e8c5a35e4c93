"""Steps of laplace and curvlinops: posteriors and products with curvature matrices."""

import torch
from torch import nn


def _network(device, outputs=3):
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, outputs)).to(device)


def _labelled(device, count=24):
    return torch.randn(count, 6, device=device), torch.randint(0, 3, (count,), device=device)


def _loader(x, y, size=12):
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=size)


def posterior_fit(device):
    """The fit of the posterior of the last layer to new data, and its marginal likelihood."""
    from laplace import Laplace

    model = _network(device)

    def step(x, y):
        la = Laplace(model, "classification", subset_of_weights="last_layer", hessian_structure="kron")
        la.fit(_loader(x, y))
        return la.log_marginal_likelihood()

    return step, _labelled(device)


def posterior_probabilities(device):
    from laplace import Laplace

    la = Laplace(_network(device), "classification", subset_of_weights="all", hessian_structure="diag")
    la.fit(_loader(*_labelled(device)))

    def step(x):
        return la(x, link_approx="probit")

    return step, (torch.randn(8, 6, device=device),)


def posterior_regression(device):
    from laplace import Laplace

    la = Laplace(_network(device, 1), "regression", subset_of_weights="all", hessian_structure="full")
    la.fit(_loader(torch.randn(24, 6, device=device), torch.randn(24, 1, device=device)))

    def step(x):
        return la(x)

    return step, (torch.randn(8, 6, device=device),)


def posterior_tuning(device):
    """A step that tunes the precision of the prior and the noise, as in the example of a regression."""
    from laplace import Laplace

    la = Laplace(_network(device, 1), "regression", subset_of_weights="all", hessian_structure="kron")
    la.fit(_loader(torch.randn(24, 6, device=device), torch.randn(24, 1, device=device)))
    log_prior = torch.zeros(1, device=device, requires_grad=True)
    log_sigma = torch.zeros(1, device=device, requires_grad=True)
    optimizer = torch.optim.Adam([log_prior, log_sigma], lr=1e-1)

    def step():
        optimizer.zero_grad()
        loss = -la.log_marginal_likelihood(log_prior.exp(), log_sigma.exp())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, ()


def posterior_samples(device):
    from laplace import Laplace

    la = Laplace(_network(device), "classification", subset_of_weights="last_layer", hessian_structure="full")
    la.fit(_loader(*_labelled(device)))

    def step(x):
        return la.predictive_samples(x, pred_type="nn", n_samples=6)

    return step, (torch.randn(8, 6, device=device),)


def posterior_precision(device):
    from laplace import Laplace

    la = Laplace(_network(device), "classification", subset_of_weights="last_layer", hessian_structure="diag")
    la.fit(_loader(*_labelled(device)))

    def step():
        la.optimize_prior_precision(method="marglik", n_steps=5, lr=0.1)
        return la.prior_precision

    return step, ()


def _operator(device, kind, **options):
    import curvlinops

    model, (x, y) = _network(device), _labelled(device)
    parameters = [p for p in model.parameters() if p.requires_grad]
    operator = getattr(curvlinops, kind)(
        model, nn.CrossEntropyLoss(), parameters, [(x[:12], y[:12]), (x[12:], y[12:])], **options
    )
    return operator, torch.randn(sum(p.numel() for p in parameters), device=device)


def hessian_product(device):
    operator, vector = _operator(device, "HessianLinearOperator")

    def step(v):
        return operator @ v

    return step, (vector,)


def newton_direction(device):
    """A direction of Newton's method with the damped matrix of Gauss and Newton."""
    from curvlinops import CGInverseLinearOperator
    from curvlinops.examples import IdentityLinearOperator

    operator, vector = _operator(device, "GGNLinearOperator", check_deterministic=False)
    shapes = [tuple(p.shape) for p in _network(device).parameters()]
    damped = operator + 0.1 * IdentityLinearOperator(shapes, device, torch.float32)
    inverse = CGInverseLinearOperator(damped, max_iter=20)

    def step(v):
        return inverse @ v

    return step, (vector,)


def kronecker_factors(device):
    from curvlinops import KFACInverseLinearOperator, KFACLinearOperator

    model = _network(device)
    parameters = list(model.parameters())

    def step(x, y, v):
        kfac = KFACLinearOperator(model, nn.CrossEntropyLoss(), parameters, [(x, y)], check_deterministic=False)
        return KFACInverseLinearOperator(kfac, damping=1e-2) @ v

    return step, (*_labelled(device), torch.randn(sum(p.numel() for p in parameters), device=device))


def fisher_trace(device):
    from curvlinops import hutchinson_trace

    operator, _ = _operator(device, "EFLinearOperator", check_deterministic=False)

    def step():
        return hutchinson_trace(operator, num_matvecs=4)

    return step, ()


def fisher_eigenvalue_corrected(device):
    operator, vector = _operator(device, "EKFACLinearOperator", check_deterministic=False)

    def step(v):
        return operator @ v, operator.trace

    return step, (vector,)


def hessian_diagonal(device):
    from curvlinops import hutchinson_diag, xtrace

    operator, _ = _operator(device, "GGNLinearOperator", check_deterministic=False)

    def step():
        return hutchinson_diag(operator, num_matvecs=4), xtrace(operator, num_matvecs=4)

    return step, ()
