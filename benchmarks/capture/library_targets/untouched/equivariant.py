"""Steps of e3nn: layers and networks that follow rotations, on small clouds of points."""

import torch
from torch import nn


def tensor_product(device):
    from e3nn import o3

    product = o3.FullyConnectedTensorProduct("8x0e + 4x1o", "1x0e + 1x1o", "8x0e + 4x1o").to(device)
    mixed = o3.Linear("8x0e + 4x1o", "4x0e + 2x1o").to(device)

    @torch.no_grad()
    def step(x, y):
        return mixed(product(x, y))

    return step, (torch.randn(32, 20, device=device), torch.randn(32, 4, device=device))


def gated_layer(device):
    from e3nn.nn import BatchNorm, Gate

    gate = Gate("8x0e", [torch.tanh], "4x0e", [torch.sigmoid], "4x1o").to(device)
    norm = BatchNorm(gate.irreps_out).to(device).train()

    def step(x):
        return norm(gate(x))

    return step, (torch.randn(32, gate.irreps_in.dim, device=device),)


class Convolution(nn.Module):
    """Messages along edges, weighted by distance, as the documentation's example builds them."""

    def __init__(self, irreps_in, irreps_out, neighbours=8):
        from e3nn import o3
        from e3nn.nn import FullyConnectedNet

        super().__init__()
        self.harmonics = o3.Irreps.spherical_harmonics(2)
        self.product = o3.FullyConnectedTensorProduct(irreps_in, self.harmonics, irreps_out, shared_weights=False)
        self.net = FullyConnectedNet([10, 16, self.product.weight_numel], torch.nn.functional.silu)
        self.neighbours = neighbours

    def forward(self, features, positions, source, target):
        from e3nn import o3
        from e3nn.math import soft_one_hot_linspace

        along = positions[target] - positions[source]
        harmonics = o3.spherical_harmonics(self.harmonics, along, normalize=True, normalization="component")
        lengths = soft_one_hot_linspace(
            along.norm(dim=1), start=0.0, end=2.0, number=10, basis="smooth_finite", cutoff=True
        )
        messages = self.product(features[source], harmonics, self.net(lengths.mul(10**0.5)))
        gathered = messages.new_zeros(features.shape[0], messages.shape[1])
        return gathered.index_add(0, target, messages) / self.neighbours**0.5


def cloud(device, points=16, edges=64):
    pairs = torch.randint(0, points, (2, edges), device=device)
    return torch.randn(points, 3, device=device), pairs[0], pairs[1]


def point_convolution(device):
    model = Convolution("4x0e", "4x0e + 2x1o").to(device)
    positions, source, target = cloud(device)

    @torch.no_grad()
    def step(features, positions, source, target):
        return model(features, positions, source, target)

    return step, (torch.randn(16, 4, device=device), positions, source, target)


def forces(device):
    """An energy and its gradient by the positions."""
    model, head = Convolution("4x0e", "4x0e").to(device), nn.Linear(4, 1).to(device)
    positions, source, target = cloud(device)
    features = torch.randn(16, 4, device=device)

    def step(positions, source, target):
        positions = positions.detach().requires_grad_(True)
        energy = head(model(features, positions, source, target)).sum()
        return -torch.autograd.grad(energy, positions)[0]

    return step, (positions, source, target)


def gate_points_training(device):
    """The network of the library's own models, over graphs that it makes of radii."""
    from e3nn.nn.models.v2106.gate_points_networks import SimpleNetwork

    model = SimpleNetwork("3x0e", "1x0e", max_radius=2.0, num_neighbors=4.0, num_nodes=8.0, mul=4, layers=2, lmax=1)
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    owner = torch.arange(2, device=device).repeat_interleave(8)

    def step(positions, x):
        optimizer.zero_grad()
        loss = model({"pos": positions, "x": x, "batch": owner}).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(16, 3, device=device), torch.randn(16, 3, device=device))


def rotated_features(device):
    from e3nn import o3

    irreps = o3.Irreps("4x0e + 2x1o + 1x2e")

    @torch.no_grad()
    def step(features, quaternions):
        alpha, beta, gamma = o3.quaternion_to_angles(quaternions)
        return torch.einsum("bij,bj->bi", irreps.D_from_angles(alpha, beta, gamma), features)

    quaternions = torch.nn.functional.normalize(torch.randn(8, 4, device=device), dim=-1)
    return step, (torch.randn(8, irreps.dim, device=device), quaternions)


def signal_on_sphere(device):
    from e3nn.o3 import FromS2Grid, ToS2Grid

    there, back = ToS2Grid(3, (10, 9)).to(device), FromS2Grid((10, 9), 3).to(device)

    @torch.no_grad()
    def step(signal):
        return back(there(signal).relu())

    return step, (torch.randn(4, 16, device=device),)
