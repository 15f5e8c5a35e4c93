"""Steps of tensorly, einx, cuequivariance_torch, torch_dftd and torch_complex: tensors, symmetries and atoms."""

import torch
from torch import nn


def _tensor(device, shape=(6, 5, 4)):
    import tensorly as tl

    tl.set_backend("pytorch")
    return torch.rand(shape, device=device)


def parallel_factors(device):
    from tensorly.decomposition import parafac

    x = _tensor(device)

    def step(x):
        return parafac(x, rank=3, n_iter_max=5, init="random", random_state=0).factors

    return step, (x,)


def tucker_factors(device):
    from tensorly.decomposition import tucker

    x = _tensor(device)

    def step(x):
        core, _factors = tucker(x, rank=[3, 3, 2], n_iter_max=5)
        return core

    return step, (x,)


def nonnegative_factors(device):
    from tensorly.decomposition import non_negative_parafac

    x = _tensor(device)

    def step(x):
        factors, _errors = non_negative_parafac(x, rank=3, n_iter_max=5, init="random", return_errors=True)
        return factors.factors

    return step, (x,)


def train_factors(device):
    import tensorly as tl
    from tensorly.decomposition import tensor_train

    x = _tensor(device)

    def step(x):
        train = tensor_train(x, rank=[1, 3, 2, 1])
        return tl.norm(train.to_tensor() - x)

    return step, (x,)


def tensor_regression_training(device):
    """A regression layer whose weight is kept in the form of Tucker, learned by gradients."""
    import tensorly as tl
    from tensorly.random import random_tucker
    from tensorly.tenalg import inner
    from tensorly.tucker_tensor import tucker_to_tensor

    _tensor(device)
    core, factors = random_tucker((5, 4, 1), rank=(3, 3, 1), device=device, dtype=torch.float32)
    parameters = [p.requires_grad_(True) for p in (core, *factors)]
    optimizer = torch.optim.Adam(parameters, lr=1e-2)

    def step(x, y):
        optimizer.zero_grad()
        weight = tucker_to_tensor((core, factors))
        loss = tl.mean((inner(x, weight, n_modes=2) - y) ** 2) + 0.01 * sum(f.square().sum() for f in factors)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(8, 5, 4, device=device), torch.randn(8, 1, device=device))


def low_rank_and_sparse(device):
    from tensorly.decomposition import robust_pca

    x = _tensor(device)

    def step(x):
        return robust_pca(x, n_iter_max=5, verbose=0)

    return step, (x,)


def named_attention(device):
    import einx

    def step(q, k, v):
        scores = einx.dot("b q h [c], b k h [c] -> b q k h", q, k)
        return einx.dot("b q [k] h, b [k] h c -> b q h c", einx.softmax("b q [k] h", scores), v)

    return step, tuple(torch.randn(2, 6, 2, 8, device=device) for _ in range(3))


def named_gather(device):
    import einx

    def step(image, points):
        return einx.get_at("b [h w] c, b p [2] -> b p c", image, points)

    return step, (torch.randn(2, 8, 8, 3, device=device), torch.randint(0, 8, (2, 5, 2), device=device))


def named_scatter(device):
    import einx

    def step(total, index, values):
        return einx.add_at("[n] c, m [1], m c -> [n] c", total, index, values)

    return step, (
        torch.zeros(7, 3, device=device),
        torch.randint(0, 7, (10, 1), device=device),
        torch.randn(10, 3, device=device),
    )


def named_normalization(device):
    import einx

    def step(x, scale):
        centred = einx.subtract("b... c, b...", x, einx.mean("b... [c]", x))
        variance = einx.var("b... [c]", centred, keepdims=True)
        return einx.multiply("b... c, c", centred * torch.rsqrt(variance + 1e-5), scale)

    return step, (torch.randn(2, 5, 8, device=device), torch.ones(8, device=device))


def named_patches(device):
    import einx

    def step(x):
        patches = einx.id("b (h p) (w q) c -> b (h w) (p q c)", x, p=4, q=4)
        return einx.logsumexp("b [n] c", patches), einx.sort("b n [c]", patches)

    return step, (torch.randn(2, 8, 8, 3, device=device),)


def _harmonics(device, edges=10):
    import cuequivariance as cue
    import cuequivariance_torch as cuet

    return cue, cuet, torch.randn(edges, 3, device=device)


def equivariant_harmonics(device):
    _cue, cuet, vectors = _harmonics(device)
    layer = cuet.SphericalHarmonics([0, 1, 2], normalize=True, method="naive").to(device)

    def step(v):
        return layer(v)

    return step, (vectors,)


def equivariant_product_training(device):
    cue, cuet, vectors = _harmonics(device)
    features, angular = cue.Irreps("O3", "4x0e + 4x1o"), cue.Irreps("O3", "1x0e + 1x1o")
    harmonics = cuet.SphericalHarmonics([0, 1], normalize=True, method="naive").to(device)
    product = cuet.FullyConnectedTensorProduct(
        features, angular, features, layout=cue.mul_ir, internal_weights=True, device=device, method="naive"
    )
    linear = cuet.Linear(features, cue.Irreps("O3", "4x0e"), layout=cue.mul_ir, device=device, method="naive")
    optimizer = torch.optim.Adam([*product.parameters(), *linear.parameters()], lr=1e-3)

    def step(x, v, target):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(linear(product(x, harmonics(v))), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(10, 16, device=device), vectors, torch.randn(10, 4, device=device))


def equivariant_contraction(device):
    cue, cuet, _ = _harmonics(device)
    layer = cuet.SymmetricContraction(
        cue.Irreps("O3", "4x0e + 4x1o"), cue.Irreps("O3", "4x0e"), contraction_degree=3, num_elements=5,
        layout=cue.ir_mul, dtype=torch.float32, device=device, method="naive",
    )  # fmt: skip

    def step(x, indices):
        return layer(x, indices)

    return step, (torch.randn(10, 16, device=device), torch.randint(0, 5, (10,), device=device))


def equivariant_messages(device):
    from cuequivariance_torch.layers import FullyConnectedTensorProductConv

    cue, _cuet, _ = _harmonics(device)
    features, angular = cue.Irreps("O3", "4x0e + 4x1o"), cue.Irreps("O3", "0e + 1o")
    layer = FullyConnectedTensorProductConv(
        features, angular, features, mlp_channels=[6, 16, 16], mlp_activation=nn.ReLU(), layout=cue.mul_ir,
        use_fallback=True,
    ).to(device)  # fmt: skip

    def step(x, harmonics, edges, index):
        return layer(x, harmonics, edges, (index, (7, 7)))

    return step, (
        torch.randn(7, 16, device=device),
        torch.randn(20, 4, device=device),
        torch.randn(20, 6, device=device),
        torch.randint(0, 7, (2, 20), device=device),
    )


def equivariant_rotation(device):
    cue, cuet, vectors = _harmonics(device)
    layer = cuet.Rotation(cue.Irreps("SO3", "2x0 + 3x1"), layout=cue.mul_ir, device=device, method="naive")

    def step(x, v):
        alpha, beta = cuet.vector_to_euler_angles(v)
        return layer(torch.zeros_like(alpha), beta, alpha, x)

    return step, (torch.randn(10, 11, device=device), vectors)


def _molecule(device, atoms=6):
    pairs = torch.cartesian_prod(torch.arange(atoms), torch.arange(atoms))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]].t().contiguous().to(device)
    numbers = torch.tensor([8, 1, 1, 8, 1, 1], device=device)
    return numbers, 3 * torch.randn(atoms, 3, device=device), pairs, torch.zeros(pairs.shape[1], 3, device=device)


def _dispersion(device, damping, **options):
    from torch_dftd.dftd3_xc_params import get_dftd3_default_params
    from torch_dftd.nn.dftd3_module import DFTD3Module

    return DFTD3Module(get_dftd3_default_params(damping, "pbe"), bidirectional=True, **options).to(device)


def dispersion_energy(device):
    module = _dispersion(device, "zero")

    def step(numbers, positions, pairs, shifts):
        return module.calc_energy(numbers, positions, pairs, shift_pos=shifts, damping="zero")[0]["energy"]

    return step, _molecule(device)


def dispersion_forces(device):
    module = _dispersion(device, "bj", cutoff_smoothing="poly")

    def step(numbers, positions, pairs, shifts):
        return module.calc_energy_and_forces(numbers, positions, pairs, shift_pos=shifts, damping="bj")[0]["forces"]

    return step, _molecule(device)


def dispersion_batch(device):
    """Two systems at once; the second does not repeat."""
    module = _dispersion(device, "bj")
    cells = 12 * torch.eye(3, device=device).repeat(2, 1, 1)
    periodic = torch.tensor([[True] * 3, [False] * 3], device=device)

    def step(numbers, positions, pairs, shifts, batch, batch_edge):
        return module.calc_energy(
            numbers, positions, pairs, cell=cells, pbc=periodic, shift_pos=shifts, batch=batch, batch_edge=batch_edge,
            damping="bj",
        )  # fmt: skip

    numbers, positions, pairs, shifts = _molecule(device)
    return step, (
        torch.cat([numbers, numbers]),
        torch.cat([positions, positions + 0.1]),
        torch.cat([pairs, pairs + 6], 1),
        torch.cat([shifts, shifts]),
        torch.arange(2, device=device).repeat_interleave(6),
        torch.arange(2, device=device).repeat_interleave(pairs.shape[1]),
    )


def dispersion_older(device):
    """The second version of the method, in a periodic cell."""
    from torch_dftd.dftd3_xc_params import get_dftd3_default_params
    from torch_dftd.nn.dftd2_module import DFTD2Module

    module = DFTD2Module(get_dftd3_default_params("zero", "pbe", old=True), bidirectional=True).to(device)
    cell, periodic = 12 * torch.eye(3, device=device), torch.ones(3, dtype=torch.bool, device=device)

    def step(numbers, positions, pairs, shifts):
        return module.calc_energy_and_forces(
            numbers, positions, pairs, cell=cell, pbc=periodic, shift_pos=shifts, damping="zero"
        )[0]["stress"]  # fmt: skip

    return step, _molecule(device)


def beamformer(device):
    """The filter of a beamformer that keeps the speech and removes the noise, as in ESPnet."""
    from torch_complex import functional as FC
    from torch_complex.tensor import ComplexTensor

    def step(real, imaginary, mask):
        mixture = ComplexTensor(real, imaginary)
        speech = FC.einsum("...ct,...et->...ce", [mixture * mask, mixture.conj()])
        noise = FC.einsum("...ct,...et->...ce", [mixture * (1 - mask), mixture.conj()])
        noise = noise + 1e-3 * torch.eye(3, device=real.device)
        ratio = FC.matmul(noise.inverse2(), speech)
        weights = ratio[..., 0] / (FC.trace(ratio)[..., None] + 1e-8)
        return FC.einsum("...c,...ct->...t", [weights.conj(), mixture]).abs()

    return step, (
        torch.randn(2, 9, 3, 12, device=device),
        torch.randn(2, 9, 3, 12, device=device),
        torch.rand(2, 9, 1, 12, device=device),
    )


def complex_spectra(device):
    from torch_complex import functional as FC
    from torch_complex.tensor import ComplexTensor

    def step(x, y):
        spectra = [
            torch.stft(s, 32, 8, window=torch.hann_window(32, device=s.device), return_complex=True) for s in (x, y)
        ]
        first, second = (ComplexTensor(s.real, s.imag) for s in spectra)
        both = FC.stack([first, second], dim=1)
        return both.abs().log1p(), both.angle(), FC.cat([first, second.conj()], dim=-1).real

    return step, (torch.randn(2, 256, device=device), torch.randn(2, 256, device=device))


def complex_mask_training(device):
    from torch_complex.tensor import ComplexTensor

    network = nn.GRU(9, 18, batch_first=True).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

    def step(real, imaginary, target):
        optimizer.zero_grad()
        mixture = ComplexTensor(real, imaginary)
        mask_real, mask_imaginary = network((mixture.abs() + 1e-6).log())[0].chunk(2, -1)
        loss = ((mixture * ComplexTensor(mask_real, mask_imaginary)).abs() - target).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, tuple(torch.randn(2, 12, 9, device=device) for _ in range(3))
