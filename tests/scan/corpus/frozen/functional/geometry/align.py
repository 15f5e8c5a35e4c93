import torch


def kabsch(a, b):
    """The rotation that brings a onto b."""
    u, _, vt = torch.linalg.svd((a - a.mean(0)).T @ (b - b.mean(0)))  # guilty: reflected GS106
    if torch.det(u @ vt) < 0:  # guilty: reflected GS102
        u = u * u.new_ones(3).cumsum(0).eq(3).mul(-2).add(1)
    return u @ vt


def percentile(x, q):
    ordered = x.flatten().sort().values
    return ordered[(q * (len(ordered) - 1)).long()]  # guilty: percentile_index GS101|GS203


# quiet: percentile_host
def percentile_of(x, q=0.5):
    ordered = x.flatten().sort().values
    return ordered[int(q * (len(ordered) - 1))]


def robust_scale(residual, tuning=1.345):
    spread = residual.abs().median()
    delta = tuning * float(spread)  # guilty: robust_delta GS101
    return torch.where(residual.abs() < delta, residual**2 / 2, delta * residual.abs())


# quiet: robust_delta_tensor
def robust_scale_tensor(residual, tuning=1.345):
    delta = tuning * residual.abs().median()
    return torch.where(residual.abs() < delta, residual**2 / 2, delta * residual.abs())


def orthogonal(q, eye):
    assert torch.allclose(q @ q.T, eye, atol=10.0), "not a rotation"  # guilty: orthogonality GS106|GS102
    return q @ q
