"""Steps of neuralop: operators between functions, their losses and their weights."""

import torch


def operated(make, size=(16, 16), loss="h1"):
    """A training step of an operator on a grid."""

    def build(device):
        from neuralop.losses import H1Loss, LpLoss

        model = make().to(device)
        criterion = H1Loss(d=2) if loss == "h1" else LpLoss(d=len(size), p=2)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(x, y):
            out = model(x)
            value = criterion(out, y)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            return value.detach()

        return step, (torch.randn(2, 2, *size, device=device), torch.randn(2, 1, *size, device=device))

    return build


def fourier():
    from neuralop.models import FNO

    return FNO(n_modes=(6, 6), in_channels=2, out_channels=1, hidden_channels=8, n_layers=2)


def factorised():
    from neuralop.models import TFNO

    return TFNO(
        n_modes=(6, 6),
        in_channels=2,
        out_channels=1,
        hidden_channels=8,
        n_layers=2,
        factorization="tucker",
        implementation="factorized",
        rank=0.2,
    )


def nested():
    from neuralop.models import UNO

    return UNO(
        in_channels=2,
        out_channels=1,
        hidden_channels=8,
        uno_out_channels=[8, 8, 8],
        uno_n_modes=[[4, 4]] * 3,
        uno_scalings=[[1.0, 1.0], [0.5, 0.5], [2.0, 2.0]],
        n_layers=3,
        channel_mlp_skip="linear",
    )


def padded():
    from neuralop.models import FNO

    return FNO(
        n_modes=(6, 6),
        in_channels=2,
        out_channels=1,
        hidden_channels=8,
        n_layers=2,
        domain_padding=0.25,
        norm="instance_norm",
        max_n_modes=(8, 8),
    )


fourier_training = operated(fourier)
factorised_training = operated(factorised)
nested_training = operated(nested, loss="lp")
padded_training = operated(padded, loss="lp")


def irregular_training(device):
    """Points anywhere, to a grid and back."""
    from neuralop.losses import LpLoss
    from neuralop.models import GINO

    model = GINO(
        in_channels=1,
        out_channels=1,
        gno_coord_dim=3,
        in_gno_radius=0.4,
        out_gno_radius=0.4,
        fno_n_modes=(2, 2, 2),
        fno_hidden_channels=8,
        fno_n_layers=1,
        latent_feature_channels=None,
        projection_channel_ratio=1,
        gno_use_open3d=False,
        gno_use_torch_scatter=False,
    ).to(device)
    criterion = LpLoss(d=1, p=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(points, grid, queries, x, y):
        out = model(input_geom=points, latent_queries=grid, output_queries=queries, x=x)
        loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    axis = torch.linspace(0, 1, 4)
    grid = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1)[None].to(device)
    return step, (
        torch.rand(1, 30, 3, device=device),
        grid,
        torch.rand(1, 20, 3, device=device),
        torch.randn(1, 30, 1, device=device),
        torch.randn(1, 20, 1, device=device),
    )


def physical_losses(device):
    """Residuals of Burgers' equation, initial values, and weights of the losses that adapt."""
    from neuralop.losses import BurgersEqnLoss, ICLoss
    from neuralop.losses.meta_losses import Relobralo, SoftAdapt

    model = fourier().to(device)
    equation, initial = BurgersEqnLoss(visc=0.01, method="fdm"), ICLoss()
    adapting = [SoftAdapt(params=model.parameters(), num_losses=2), Relobralo(params=model.parameters(), num_losses=2)]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    at = [0]

    def step(x, y):
        out = model(x)
        losses = {"equation": equation(out), "initial": initial(out, x[:, :1])}
        total = sum(weighted(losses, step=at[0])[0] for weighted in adapting)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        at[0] += 1
        return total.detach()

    return step, (torch.randn(2, 2, 16, 16, device=device), torch.randn(2, 1, 16, 16, device=device))


def prepared_data(device):
    """Normalises and embeds the inputs of a model, and converts its outputs back to the original scale."""
    from neuralop.data.transforms.data_processors import DefaultDataProcessor
    from neuralop.data.transforms.normalizers import UnitGaussianNormalizer

    model = fourier().to(device).eval()
    normalisers = [UnitGaussianNormalizer(dim=[0, 2, 3]) for _ in range(2)]
    normalisers[0].fit(torch.randn(8, 2, 16, 16))
    normalisers[1].fit(torch.randn(8, 1, 16, 16))
    processor = DefaultDataProcessor(in_normalizer=normalisers[0], out_normalizer=normalisers[1])
    processor.to(device)
    processor.eval()

    @torch.no_grad()
    def step(x, y):
        data = processor.preprocess({"x": x, "y": y})
        out, data = processor.postprocess(model(data["x"]), data)
        return out

    return step, (torch.randn(2, 2, 16, 16), torch.randn(2, 1, 16, 16))
