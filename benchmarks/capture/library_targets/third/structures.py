"""Steps of geoopt, egnn-pytorch, torchcde, geomloss, torch-kmeans, pytorch-crf and peft."""

import torch
import torch.nn.functional as F
from torch import nn


def hyperbolic_training(device):
    """Points of a ball drawn together by a Riemannian optimizer."""
    import geoopt

    ball = geoopt.PoincareBall()
    points = geoopt.ManifoldParameter(ball.projx(torch.randn(16, 4, device=device) * 0.1), manifold=ball)
    optimizer = geoopt.optim.RiemannianAdam([points], lr=1e-2, stabilize=2)

    def step(first, second):
        optimizer.zero_grad()
        loss = ball.dist(points[first], points[second]).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randint(0, 16, (8,), device=device), torch.randint(0, 16, (8,), device=device))


def orthogonal_training(device):
    """An orthogonal matrix kept so by gradient descent on its manifold."""
    import geoopt

    stiefel = geoopt.EuclideanStiefel()
    matrix = geoopt.ManifoldParameter(stiefel.random(8, 4, device=device), manifold=stiefel)
    optimizer = geoopt.optim.RiemannianSGD([matrix], lr=1e-2, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = -(x @ matrix).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(16, 8, device=device),)


def spread_matrices(device):
    """Distances and means of covariance matrices."""
    from geoopt import Sphere, SymmetricPositiveDefinite

    space, sphere = SymmetricPositiveDefinite(), Sphere()

    @torch.no_grad()
    def step(one, other, x):
        direction = space.logmap(one, other)
        x = sphere.projx(x)
        return space.dist(one, other), space.expmap(one, 0.5 * direction), sphere.dist(x[:4], x[4:])

    def matrices():
        x = torch.randn(4, 3, 3, device=device)
        return x @ x.mT + torch.eye(3, device=device)

    return step, (matrices(), matrices(), torch.randn(8, 3, device=device))


def checked_points(device):
    """Points checked to be on their manifold before they are used."""
    import geoopt

    ball = geoopt.PoincareBall()

    @torch.no_grad()
    def step(x):
        x = ball.projx(x)
        ball.assert_check_point_on_manifold(x)
        return ball.mobius_add(x, -x), ball.expmap0(x)

    return step, (torch.randn(8, 4, device=device) * 0.1,)


def molecules(device):
    """An equivariant graph network on clouds of atoms, trained."""
    from egnn_pytorch import EGNN_Network

    model = EGNN_Network(
        num_tokens=8, dim=16, depth=2, num_nearest_neighbors=4, norm_coors=True, coor_weights_clamp_value=2.0
    )
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(atoms, places, mask):
        features, moved = model(atoms, places, mask=mask)
        loss = features.square().mean() + (moved - places).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    atoms = torch.randint(0, 8, (2, 12), device=device)
    return step, (atoms, torch.randn(2, 12, 3, device=device), torch.ones(2, 12, dtype=torch.bool, device=device))


def bonded_molecules(device):
    from egnn_pytorch import EGNN_Network

    model = EGNN_Network(num_tokens=8, dim=16, depth=1, only_sparse_neighbors=True, num_adj_degrees=2, adj_dim=4).to(
        device
    )

    @torch.no_grad()
    def step(atoms, places, bonds):
        return model(atoms, places, adj_mat=bonds)

    chain = torch.arange(12, device=device)
    bonds = (chain[:, None] - chain[None, :]).abs() <= 1
    return step, (torch.randint(0, 8, (2, 12), device=device), torch.randn(2, 12, 3, device=device), bonds)


class Field(nn.Module):
    def __init__(self, channels=3, width=4):
        super().__init__()
        self.net, self.channels, self.width = nn.Linear(width, width * channels), channels, width

    def forward(self, t, z):
        return self.net(z).tanh().view(*z.shape[:-1], self.width, self.channels)


def straight(torchcde, x):
    return torchcde.LinearInterpolation(torchcde.linear_interpolation_coeffs(x))


def smooth(torchcde, x):
    return torchcde.CubicSpline(torchcde.natural_cubic_coeffs(x))


def backward(torchcde, x):
    return torchcde.CubicSpline(torchcde.hermite_cubic_coefficients_with_backward_differences(x))


def controlled(method, through, **options):
    """A controlled differential equation driven by samples of a path."""

    def build(device):
        import torchcde

        field = Field().to(device)
        optimizer = torch.optim.Adam(field.parameters(), lr=1e-3)

        def step(x):
            path = through(torchcde, x)
            start = x.new_zeros(x.shape[0], 4)
            end = torchcde.cdeint(X=path, func=field, z0=start, t=path.interval, method=method, **options)[:, -1]
            loss = end.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (torch.randn(4, 8, 3, device=device),)

    return build


linear_path = controlled("rk4", straight, adjoint=False, options={"step_size": 0.5})
smooth_path = controlled("dopri5", smooth, rtol=1e-2, atol=1e-2)
online_path = controlled("midpoint", backward, options={"step_size": 1.0})


def missing_values(device):
    """Splines through a path whose values are partly missing."""
    import torchcde

    @torch.no_grad()
    def step(x):
        coefficients = torchcde.linear_interpolation_coeffs(x, rectilinear=0)
        smooth = torchcde.natural_cubic_coeffs(x)
        return torchcde.LinearInterpolation(coefficients).evaluate(1.5), torchcde.CubicSpline(smooth).derivative(2.5)

    x = torch.randn(2, 6, 3, device=device)
    x[..., 0] = torch.arange(6, device=device, dtype=x.dtype)
    x[0, 2, 1] = x[1, 4, 2] = float("nan")
    return step, (x,)


def transported(device):
    """One cloud of points moved towards another by a divergence."""
    from geomloss import SamplesLoss

    criteria = [
        SamplesLoss("sinkhorn", p=2, blur=0.1, scaling=0.7, backend="tensorized"),
        SamplesLoss("energy", backend="tensorized"),
        SamplesLoss("gaussian", blur=0.5, backend="tensorized"),
    ]

    def step(x, y):
        loss = sum(criterion(x, y) for criterion in criteria)
        (gradient,) = torch.autograd.grad(loss, x)
        return loss.detach(), x.detach() - gradient

    return step, (torch.rand(32, 2, device=device, requires_grad=True), torch.rand(40, 2, device=device))


def clusters(device):
    from torch_kmeans import KMeans

    model = KMeans(n_clusters=4, max_iter=5, num_init=2, verbose=False).to(device)

    @torch.no_grad()
    def step(x):
        return model(x).labels

    return step, (torch.randn(2, 32, 3, device=device),)


def soft_clusters(device):
    from torch_kmeans import ConstrainedKMeans, SoftKMeans

    soft = SoftKMeans(n_clusters=4, max_iter=4, verbose=False).to(device)
    limited = ConstrainedKMeans(n_clusters=4, max_iter=4, verbose=False).to(device)

    @torch.no_grad()
    def step(x, weights):
        return soft(x).labels, limited(x, weights=weights).labels

    return step, (torch.randn(2, 32, 3, device=device), torch.full((2, 32), 0.1, device=device))


def tagging(device):
    """A tagger trained by the likelihood of its tags, and its best tags."""
    from torchcrf import CRF

    scores, chain = nn.Linear(8, 5).to(device), CRF(5, batch_first=True).to(device)
    optimizer = torch.optim.SGD([*scores.parameters(), *chain.parameters()], lr=0.01)

    def step(x, tags, mask):
        emitted = scores(x)
        loss = -chain(emitted, tags, mask=mask, reduction="mean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), chain.decode(emitted.detach(), mask=mask)

    mask = torch.ones(4, 10, dtype=torch.bool, device=device)
    mask[1, 6:] = False
    return step, (torch.randn(4, 10, 8, device=device), torch.randint(0, 5, (4, 10), device=device), mask)


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 5)

    def forward(self, x):
        return self.last(self.second(self.first(x).relu()).relu())


def adapted(kind, update=False, **options):
    """A network trained through small additions to its layers."""

    def build(device):
        import peft

        model = peft.get_peft_model(Perceptron(), getattr(peft, kind)(target_modules=["first", "second"], **options))
        model = model.to(device).train()
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
        steps = iter(range(1, 1000))

        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if update:
                model.base_model.update_and_allocate(next(steps))
            return loss.detach()

        return step, (torch.randn(16, 8, device=device), torch.randint(0, 5, (16,), device=device))

    return build


low_rank = adapted("LoraConfig", r=4, lora_dropout=0.1)
decomposed = adapted("LoraConfig", r=4, use_dora=True)
chosen_ranks = adapted("AdaLoraConfig", update=True, init_r=4, target_r=2, tinit=1, tfinal=1, total_step=100, deltaT=1)
rotations = adapted("OFTConfig", r=0, oft_block_size=4)
butterflies = adapted("BOFTConfig", boft_block_size=4)
vectors = adapted("VeraConfig", r=4)
kronecker = adapted("LoKrConfig", r=4)
frequencies = adapted("FourierFTConfig", n_frequency=20)


def merged_adapters(device):
    """Adapters mixed into one, as a server changes tasks."""
    import peft

    model = peft.get_peft_model(Perceptron(), peft.LoraConfig(r=4, target_modules=["first", "second"]))
    model.add_adapter("other", peft.LoraConfig(r=4, target_modules=["first", "second"]))
    model = model.to(device).eval()

    @torch.no_grad()
    def step(x):
        model.base_model.add_weighted_adapter(
            ["default", "other"], [0.5, 0.5], "both", combination_type="ties", density=0.5
        )
        model.set_adapter("both")
        answer = model(x)
        model.delete_adapter("both")
        return answer

    return step, (torch.randn(16, 8, device=device),)
