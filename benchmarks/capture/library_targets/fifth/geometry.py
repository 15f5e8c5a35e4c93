"""Steps of roma and geotorch: rotations, registrations, and layers whose weights stay on a manifold."""

import torch
from torch import nn


def converted_rotations(device):
    import roma

    def step(vectors, points):
        matrix = roma.rotvec_to_rotmat(vectors)
        quat = roma.rotmat_to_unitquat(matrix)
        back = roma.unitquat_to_rotvec(quat)
        turned = roma.quat_action(quat, points)
        both = roma.quat_composition([quat, roma.quat_inverse(quat), quat], normalize=True)
        return back, turned, roma.rotvec_to_unitquat(back), roma.quat_product(both, quat)

    return step, (roma.random_rotvec(16, device=device), torch.rand(16, 3, device=device))


def euler_angles(device):
    import roma

    def step(angles):
        matrix = roma.euler_to_rotmat("xyz", angles, degrees=True)
        quat = roma.euler_to_unitquat("ZYX", angles)
        vector = roma.euler_to_rotvec("XYZ", [angles[:, 0], angles[:, 1], angles[:, 2]])
        return (
            roma.rotmat_to_euler("xyz", matrix, degrees=True),
            roma.unitquat_to_euler("ZYX", quat),
            roma.rotvec_to_euler("XYZ", vector, as_tuple=True),
        )

    return step, (torch.rand(8, 3, device=device),)


def registered_points(device):
    import roma

    def step(x, y, weights):
        rotation, shift = roma.rigid_points_registration(x, y, weights=weights)
        with_scale = roma.rigid_points_registration(x, y, compute_scaling=True)
        vectors = roma.rigid_vectors_registration(x, y, weights=weights, compute_scaling=True)
        quat = roma.rigid_points_registration_unitquat(x, y)
        return rotation, shift, with_scale, vectors, quat

    x = torch.rand(4, 20, 3, device=device)
    turn = roma.random_rotmat(4, device=device)
    return step, (x, x @ turn.transpose(-1, -2) + 0.3, torch.rand(4, 20, device=device))


def procrustes_training(device):
    import roma

    raw = nn.Parameter(torch.randn(8, 3, 3, device=device))

    def step(target):
        rotation = roma.special_procrustes(raw, regularization=0.01)
        other, flips = roma.procrustes(raw, force_rotation=False, return_singular_values=True)
        loss = (
            roma.rotmat_geodesic_distance(rotation, target).mean()
            + roma.special_gramschmidt(raw[..., :2]).square().mean()
            + other.mean()
        )
        loss.backward()
        return loss.detach(), flips, roma.is_rotation_matrix(rotation, epsilon=1e-3)

    return step, (roma.random_rotmat(8, device=device),)


def interpolated_rotations(device):
    import roma

    def step(q0, q1, steps):
        v0, v1 = roma.unitquat_to_rotvec(q0), roma.unitquat_to_rotvec(q1)
        slow, fast = roma.unitquat_slerp(q0, q1, steps), roma.unitquat_slerp_fast(q0, q1, steps, shortest_arc=True)
        return (
            slow,
            fast,
            roma.rotvec_slerp(v0, v1, steps),
            roma.rotmat_slerp(roma.rotvec_to_rotmat(v0), roma.rotvec_to_rotmat(v1), steps),
        )

    return step, (
        roma.random_unitquat(4, device=device),
        roma.random_unitquat(4, device=device),
        torch.linspace(0, 1, 5, device=device),
    )


def rigid_transforms(device):
    import roma

    def step(quat, shift, points):
        moved = roma.RigidUnitQuat(quat, shift)
        both = moved @ moved.inverse() @ moved
        rigid = both.to_rigid()
        affine = roma.Affine(rigid.linear, shift)
        return (
            both.normalize().apply(points),
            rigid.apply(points),
            affine.inverse().apply(points),
            rigid.to_homogeneous(),
        )

    return step, (
        roma.random_unitquat(4, device=device),
        torch.rand(4, 3, device=device),
        torch.rand(4, 3, device=device),
    )


def symmetric_quaternions(device):
    import roma

    def step(x, q):
        quat = roma.symmatrixvec_to_unitquat(x)
        distance = roma.unitquat_geodesic_distance(quat, q)
        return (
            distance,
            roma.rotvec_geodesic_distance(roma.unitquat_to_rotvec(quat), roma.unitquat_to_rotvec(q)),
            roma.rotmat_cosine_angle(roma.unitquat_to_rotmat(q)),
        )

    return step, (torch.randn(4, 10, device=device), roma.random_unitquat(4, device=device))


def constrained(name, *arguments, layer=(6, 6), **options):
    """A training step of a layer whose weight is on a manifold."""

    def build(device):
        import geotorch

        linear = nn.Linear(*layer)
        getattr(geotorch, name)(linear, "weight", *arguments, **options)
        linear = linear.to(device)
        optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)

        def step(x):
            loss = linear(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (torch.randn(8, layer[0], device=device),)

    return build


orthogonal_training = constrained("orthogonal", layer=(6, 4))
cayley_training = constrained("orthogonal", triv="cayley")
low_rank_training = constrained("low_rank", 2, layer=(6, 4))
fixed_rank_training = constrained("fixed_rank", 2, layer=(6, 4), f="softplus")
positive_training = constrained("positive_definite", f="softplus")
unit_determinant_training = constrained("sln")
spherical_training = constrained("sphere", radius=2.0)
stable_training = constrained("alpha_stable", alpha=0.1)


def sampled_weights(device):
    """New weights from the manifold; a rebased trivialisation."""
    import geotorch

    layer = nn.Linear(6, 4)
    geotorch.orthogonal(layer, "weight")
    layer = layer.to(device)

    def step(x):
        layer.weight = layer.parametrizations.weight[0].sample("uniform")
        geotorch.update_base(layer, "weight")
        return layer(x), layer.parametrizations.weight[0].in_manifold(layer.weight)

    return step, (torch.randn(8, 6, device=device),)
