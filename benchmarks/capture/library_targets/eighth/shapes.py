"""Steps of interpol, cliffordlayers, lgatr and xnn: deformations, geometric algebras and potentials of atoms."""

import torch
from torch import nn


def pulled(interpolation, bound, **options):
    """An image that a deformation field moves."""

    def build(device):
        import interpol

        def step(image, displacement):
            grid = interpol.add_identity_grid(displacement)
            return interpol.grid_pull(image, grid, interpolation=interpolation, bound=bound, **options)

        return step, (torch.randn(2, 3, 10, 12, device=device), torch.randn(2, 10, 12, 2, device=device))

    return build


linear_warp = pulled("linear", "dct2")
cubic_warp = pulled(3, "zero", prefilter=True, extrapolate=True)


def registration_training(device):
    """Learn the field that moves one image on another."""
    import interpol

    displacement = torch.zeros(1, 12, 12, 2, device=device, requires_grad=True)
    optimizer = torch.optim.Adam([displacement], lr=0.1)

    def step(moving, fixed):
        optimizer.zero_grad()
        warped = interpol.grid_pull(moving, interpol.add_identity_grid(displacement), interpolation=2, bound="dct2")
        loss = nn.functional.mse_loss(warped, fixed)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(1, 1, 12, 12, device=device), torch.randn(1, 1, 12, 12, device=device))


def label_warp(device):
    import interpol

    def step(labels, grid):
        return interpol.grid_pull(labels, grid, interpolation=1, bound="nearest")

    return step, (torch.randint(4, (1, 1, 10, 10), device=device), torch.rand(1, 10, 10, 2, device=device) * 9)


def splatting(device):
    import interpol

    def step(image, grid):
        splat = interpol.grid_push(image, grid, shape=(8, 8), interpolation=1, bound="zero")
        count = interpol.grid_count(grid, shape=(8, 8), interpolation=1, bound="zero")
        return splat / (count + 1e-3)

    return step, (torch.randn(1, 2, 10, 10, device=device), torch.rand(1, 10, 10, 2, device=device) * 7)


def resampling(device):
    """A volume in another size, and its gradients."""
    import interpol

    def step(volume, grid):
        small = interpol.resize(volume, shape=(6, 6, 6), interpolation=3, prefilter=True)
        return small, interpol.grid_grad(small, grid, interpolation=3, bound="dft")

    return step, (torch.randn(1, 1, 8, 8, 8, device=device), torch.rand(1, 4, 4, 4, 3, device=device) * 5)


def clifford_training(device):
    """A step of the model of the two-dimensional equations of a fluid."""
    from cliffordlayers.models.models_2d import CliffordBasicBlock2d, CliffordNet2d

    model = CliffordNet2d(
        g=[-1, -1],
        block=CliffordBasicBlock2d,
        num_blocks=[1, 1],
        in_channels=4,
        out_channels=1,
        hidden_channels=4,
        activation=nn.functional.gelu,
        norm=True,
        rotation=False,
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(fields, following):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(fields), following)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(1, 4, 16, 16, 3, device=device), torch.randn(1, 1, 16, 16, 3, device=device))


def clifford_fourier(device):
    from cliffordlayers.models.models_2d import CliffordFourierBasicBlock2d, CliffordNet2d

    model = CliffordNet2d(
        g=[1, 1],
        block=CliffordFourierBasicBlock2d,
        num_blocks=[1],
        in_channels=4,
        out_channels=1,
        hidden_channels=4,
        activation=nn.functional.gelu,
        norm=False,
        rotation=False,
    ).to(device)

    def step(fields):
        with torch.no_grad():
            return model(fields)

    return step, (torch.randn(1, 4, 32, 32, 3, device=device),)


def clifford_maxwell(device):
    """Electric and magnetic fields in three dimensions."""
    from cliffordlayers.models.models_3d import CliffordFourierBasicBlock3d, CliffordNet3d

    model = CliffordNet3d(
        g=[1, 1, 1],
        block=CliffordFourierBasicBlock3d,
        num_blocks=[1],
        in_channels=4,
        out_channels=1,
        hidden_channels=4,
        activation=nn.functional.gelu,
        norm=False,
    ).to(device)

    def step(fields):
        with torch.no_grad():
            return model(fields)

    return step, (torch.randn(1, 4, 16, 16, 16, 6, device=device),)


def clifford_layers(device):
    from cliffordlayers.nn.modules.batchnorm import CliffordBatchNorm1d
    from cliffordlayers.nn.modules.cliffordlinear import CliffordLinear

    linear = CliffordLinear(g=[1, 1, 1], in_channels=4, out_channels=6).to(device)
    norm = CliffordBatchNorm1d(g=[1, 1, 1], channels=6).to(device).train()
    return lambda x: norm(linear(x)), (torch.randn(12, 4, 8, device=device),)


def multivectors(momenta):
    from lgatr import embed_vector, get_spurions

    vectors = embed_vector(momenta.unsqueeze(-2))
    spurions = get_spurions(device=momenta.device, dtype=momenta.dtype)
    return torch.cat([vectors, spurions.expand(*vectors.shape[:-2], -1, -1)], -2)


def jet_training(device):
    """Tag jets by the momenta of their particles."""
    from lgatr import LGATr, MLPConfig, SelfAttentionConfig, extract_scalar, get_num_spurions

    model = LGATr(
        num_blocks=2,
        in_mv_channels=1 + get_num_spurions(),
        out_mv_channels=1,
        hidden_mv_channels=4,
        in_s_channels=2,
        out_s_channels=1,
        hidden_s_channels=8,
        attention=SelfAttentionConfig(num_heads=2),
        mlp=MLPConfig(),
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(momenta, scalars, labels):
        optimizer.zero_grad()
        out, _ = model(multivectors(momenta), scalars=scalars)
        logits = extract_scalar(out)[..., 0, 0].mean(-1)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (
        torch.randn(4, 6, 4, device=device),
        torch.randn(4, 6, 2, device=device),
        torch.randint(2, (4,), device=device).float(),
    )


def jet_slim(device):
    from lgatr import LGATrSlim

    model = LGATrSlim(
        num_blocks=2,
        in_v_channels=1,
        out_v_channels=1,
        hidden_v_channels=4,
        in_s_channels=2,
        out_s_channels=1,
        hidden_s_channels=8,
        num_heads=2,
    ).to(device)
    model.eval()

    def step(momenta, scalars):
        with torch.no_grad():
            return model(momenta.unsqueeze(-2), scalars=scalars)

    return step, (torch.randn(4, 6, 4, device=device), torch.randn(4, 6, 2, device=device))


def jet_conditional(device):
    """What was seen conditions what was made, as in unfolding."""
    from lgatr import (
        ConditionalLGATr,
        CrossAttentionConfig,
        MLPConfig,
        SelfAttentionConfig,
        embed_vector,
        extract_vector,
    )

    model = ConditionalLGATr(
        num_blocks=1,
        in_mv_channels=1,
        mv_channels_cond=1,
        out_mv_channels=1,
        hidden_mv_channels=4,
        in_s_channels=0,
        s_channels_cond=0,
        out_s_channels=0,
        hidden_s_channels=8,
        attention=SelfAttentionConfig(num_heads=2),
        crossattention=CrossAttentionConfig(num_heads=2),
        mlp=MLPConfig(),
    ).to(device)

    def step(made, seen):
        with torch.no_grad():
            out, _ = model(embed_vector(made.unsqueeze(-2)), embed_vector(seen.unsqueeze(-2)))
            return extract_vector(out)

    return step, (torch.randn(4, 6, 4, device=device), torch.randn(4, 5, 4, device=device))


def jet_embedding(device):
    from lgatr import embed_scalar, extract_vector

    def step(momenta, masses):
        mv = multivectors(momenta) + embed_scalar(masses.unsqueeze(-2))
        return extract_vector(mv)

    return step, (torch.randn(4, 6, 4, device=device), torch.rand(4, 6, 1, device=device))


def atoms(on):
    """Two small molecules."""
    from xnn.common.data import collate, structure_to_graph

    torch.manual_seed(1)
    structures = [
        {"pos": torch.rand(n, 3) * 3, "atomic_numbers": torch.tensor([8, 1, 1, 6, 1][:n]), "energy": 1.0}
        for n in (3, 5)
    ]
    for structure in structures:
        structure["forces"] = torch.zeros_like(structure["pos"])
    return collate([structure_to_graph(structure, 4.0) for structure in structures]).to(on)


def potential_training(kind, **options):
    """Energies and forces of molecules."""

    def build(device):
        import dataclasses

        from xnn.common.config import Config
        from xnn.common.models import ForceStressOutput, build_model
        from xnn.common.train import weighted_loss

        config = Config()
        config.model.name, config.model.cutoff, config.model.extra = kind, 4.0, options
        config.model.n_features, config.model.n_interactions, config.model.n_rbf = 16, 1, 6
        model = ForceStressOutput(build_model(config.model)).to(device)
        data = atoms(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(pos):
            graph = dataclasses.replace(data, pos=pos)
            optimizer.zero_grad()
            out = model(graph)
            loss, _ = weighted_loss(out, graph, 1.0, 10.0, 0.0)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (data.pos.clone(),)

    return build


schnet_training = potential_training("schnet")
painn_training = potential_training("painn")


def neighbors(device):
    """Edges of the atoms of a periodic cell."""
    from xnn.common.data import build_neighbor_list

    cell, pbc = torch.eye(3, device=device) * 4, torch.tensor([True, True, True], device=device)
    return lambda pos: build_neighbor_list(pos, 3.0, cell, pbc), (torch.rand(6, 3, device=device) * 4,)


def angular_training(device):
    """Angles between edges."""
    from xnn.gnn.models import DimeNetPP

    model = DimeNetPP(
        n_features=16, n_interactions=1, n_spherical=3, cutoff=4.0, n_triplet_features=8, n_output_features=16
    ).to(device)
    data = atoms(device)

    def step(scale):
        energy = model(data)["energy"] * scale
        energy.sum().backward()
        return energy.detach()

    return step, (torch.ones((), device=device),)


def symmetry_functions(device):
    from xnn.common.models import ForceStressOutput
    from xnn.dnn.models import ANI

    model = ForceStressOutput(ANI(species=[1, 6, 8], hidden=(16, 8))).to(device)
    data = atoms(device)
    return lambda scale: model(data)["forces"] * scale, (torch.ones((), device=device),)


def dispersion(device):
    from xnn.common.models import DFTD3

    model, data = DFTD3(damping="bj").to(device), atoms(device)
    return lambda scale: model(data)["energy"] * scale, (torch.ones((), device=device),)
