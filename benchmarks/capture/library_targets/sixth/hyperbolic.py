"""Steps of hypll and kan: layers in hyperbolic space, splines in place of weights."""

import torch
from torch import nn


def hyperbolic_training(device):
    """An image classifier on the ball."""
    from hypll import nn as hnn
    from hypll.manifolds.poincare_ball import Curvature, PoincareBall
    from hypll.optim import RiemannianAdam
    from hypll.tensors import TangentTensor

    ball = PoincareBall(c=Curvature(requires_grad=True)).to(device)
    model = nn.Sequential(
        hnn.HConvolution2d(1, 2, 3, manifold=ball, padding=1),
        hnn.HReLU(manifold=ball),
        hnn.HMaxPool2d(2, manifold=ball, stride=2),
        hnn.HFlatten(),
        hnn.HLinear(18, 3, manifold=ball),
    ).to(device)
    optimizer = RiemannianAdam(model.parameters(), lr=1e-3)

    def step(x, y):
        points = ball.expmap(TangentTensor(data=x, man_dim=1, manifold=ball))
        loss = nn.functional.cross_entropy(model(points).tensor, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(2, 1, 6, 6, device=device), torch.randint(0, 3, (2,), device=device))


def embedded_tree_training(device):
    """Trains embeddings of a tree's nodes. Each node should be near its parent and far from other nodes."""
    from hypll.manifolds.poincare_ball import Curvature, PoincareBall
    from hypll.nn import HEmbedding
    from hypll.optim import RiemannianSGD

    ball = PoincareBall(Curvature(1.0))
    table = HEmbedding(12, 3, manifold=ball).to(device)
    optimizer = RiemannianSGD(table.parameters(), lr=0.3, momentum=0.5, weight_decay=1e-4)

    def step(edges):
        pairs = table(edges)
        distances = table.manifold.dist(x=pairs[:, :, 0, :], y=pairs[:, :, 1, :])
        loss = (-(-distances[:, 0] - (-distances).exp().sum(-1).log())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randint(0, 12, (6, 4, 2), device=device),)


def normalised_ball_training(device):
    from hypll import nn as hnn
    from hypll.manifolds.poincare_ball import Curvature, PoincareBall
    from hypll.optim import RiemannianAdam
    from hypll.tensors import TangentTensor

    ball = PoincareBall(Curvature(0.5)).to(device)
    first, norm, last = (
        hnn.HLinear(4, 5, manifold=ball).to(device),
        hnn.HBatchNorm(5, manifold=ball).to(device),
        hnn.HLinear(5, 2, manifold=ball).to(device),
    )
    optimizer = RiemannianAdam([*first.parameters(), *norm.parameters(), *last.parameters()], lr=1e-2, amsgrad=True)

    def step(x, y):
        points = ball.expmap(TangentTensor(data=0.3 * x, man_dim=-1, manifold=ball))
        out = ball.logmap(x=None, y=last(norm(first(points))))
        loss = nn.functional.cross_entropy(out.tensor, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(6, 4, device=device), torch.randint(0, 2, (6,), device=device))


def hyperbolic_means(device):
    from hypll.manifolds.poincare_ball import Curvature, PoincareBall
    from hypll.tensors import ManifoldTensor

    ball = PoincareBall(Curvature(1.0)).to(device)

    def step(x, y):
        one, two = ManifoldTensor(x, manifold=ball).project(), ManifoldTensor(y, manifold=ball).project()
        mean, middle = ball.frechet_mean(one), ball.midpoint(one)
        spread = ball.frechet_variance(one, mu=mean, batch_dim=0)
        return mean.tensor, middle.tensor, spread, ball.dist(one, two), ball.mobius_add(one, two).tensor

    return step, (0.3 * torch.randn(6, 3, device=device), 0.3 * torch.randn(6, 3, device=device))


def spline_network(optimizer_name="Adam", update=False, prune=False, **options):
    def build(device):
        from kan import KAN, LBFGS

        model = KAN(width=[2, 3, 1], grid=3, k=3, seed=0, device=device, auto_save=False, **options)
        optimizer = (
            LBFGS(model.get_params(), lr=1, max_iter=4, line_search_fn="strong_wolfe", tolerance_grad=1e-32)
            if optimizer_name == "LBFGS"
            else torch.optim.Adam(model.get_params(), lr=1e-2)
        )

        def step(x, y):
            if update:
                model.update_grid(x)

            def closure():
                optimizer.zero_grad()
                objective = (model(x) - y).square().mean()
                if not options.get("save_act", True):
                    objective.backward()
                    return objective
                objective = objective + 1e-3 * model.get_reg("edge_forward_spline_n", 1.0, 2.0, 0.1, 0.1)
                objective.backward()
                return objective

            loss = optimizer.step(closure)
            if prune:
                model.attribute()
            return loss.detach()

        return step, (torch.rand(12, 2, device=device) * 2 - 1, torch.randn(12, 1, device=device))

    return build


spline_training = spline_network()
fast_spline_training = spline_network(symbolic_enabled=False, save_act=False)
regridded_spline_training = spline_network(update=True)
second_order_spline_training = spline_network("LBFGS", symbolic_enabled=False)


def fitted_splines(device):
    """Two steps of the library's own fit, with its tests and its bar."""
    from kan import KAN

    model = KAN(width=[2, [2, 1], 1], grid=3, k=3, seed=0, device=device, auto_save=False)

    def step(x, y):
        data = {"train_input": x, "train_label": y, "test_input": x, "test_label": y}
        return model.fit(data, opt="Adam", steps=2, lamb=0.01, log=1, lr=1e-2)

    return step, (torch.rand(12, 2, device=device) * 2 - 1, torch.randn(12, 1, device=device))
