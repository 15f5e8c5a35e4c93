"""Steps of azula, torchvine, vbll and zflows: diffusion, copulas, Bayesian layers and flows."""

import torch
from torch import nn


def denoiser_of(device, features=5):
    from azula.denoise import KarrasDenoiser
    from azula.noise import VPSchedule

    class Backbone(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(features + 1, 32), nn.SiLU(), nn.Linear(32, features))

        def forward(self, x, t, **kwargs):
            return self.net(torch.cat([x, t[..., None].expand(*x.shape[:-1], 1)], -1))

    return KarrasDenoiser(backbone=Backbone(), schedule=VPSchedule()).to(device)


def denoiser_training(device):
    denoiser = denoiser_of(device)
    optimizer = torch.optim.Adam(denoiser.parameters(), lr=1e-3)

    def step(x):
        t = torch.rand((x.shape[0],), device=x.device)
        loss = denoiser.loss(x, t)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, (torch.randn(16, 5, device=device),)


def sampled(kind, **options):
    """Samples that a diffusion model draws."""

    def build(device):
        import azula.sample

        sampler = getattr(azula.sample, kind)(denoiser_of(device).eval(), steps=4, silent=True, **options)
        return sampler, (torch.randn(8, 5, device=device),)

    return build


ancestral_sampling = sampled("DDPMSampler")
multistep_sampling = sampled("zABSampler", order=3)


def image_sampling(device):
    """The time embedding modulates a U-Net."""
    from azula.denoise import SimpleDenoiser
    from azula.nn.layers import SineEncoding
    from azula.nn.unet import UNet
    from azula.noise import CosineSchedule
    from azula.sample import DDIMSampler

    class Backbone(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Sequential(SineEncoding(16), nn.Linear(16, 16))
            self.unet = UNet(3, 3, hid_channels=(8, 16), hid_blocks=(1, 1), mod_features=16)

        def forward(self, x, t, **kwargs):
            return self.unet(x, self.embed(t))

    denoiser = SimpleDenoiser(backbone=Backbone(), schedule=CosineSchedule()).to(device).eval()
    sampler = DDIMSampler(denoiser, steps=4, silent=True)
    return sampler, (torch.randn(2, 3, 16, 16, device=device),)


def posterior_sampling(device):
    """Moment matching to an observation."""
    from azula.guidance import MMPSDenoiser
    from azula.linalg.covariance import IsotropicCovariance
    from azula.sample import DDIMSampler

    denoiser = denoiser_of(device).eval()
    for parameter in denoiser.parameters():
        parameter.requires_grad_(False)

    def step(x, y):
        guided = MMPSDenoiser(
            denoiser,
            y,
            A=lambda x: x[..., :2],
            cov_y=IsotropicCovariance(torch.tensor(0.01, device=device)),
            iterations=2,
        )
        return DDIMSampler(guided, steps=4, silent=True)(x)

    return step, (torch.randn(8, 5, device=device), torch.randn(8, 2, device=device))


def inpainting(device):
    from azula.guidance import RePaintSampler

    denoiser = denoiser_of(device).eval()
    mask = torch.tensor([True, True, False, False, False], device=device)

    def step(x, y):
        return RePaintSampler(denoiser, y, mask.expand_as(y), iterations=2, steps=4, silent=True)(x)

    return step, (torch.randn(8, 5, device=device), torch.randn(8, 5, device=device))


def pairs(device, n=40):
    return torch.rand(n, 2, device=device, dtype=torch.float64).clamp(0.02, 0.98)


def copula(family, *parameters, rotation=0):
    """Density, conditional distribution and its inverse of a pair copula."""

    def build(device):
        from torchvine import Bicop, BicopFamily

        bicop = Bicop(
            getattr(BicopFamily, family), rotation, torch.tensor(parameters, dtype=torch.float64, device=device)
        )

        def step(u):
            return bicop.pdf(u), bicop.hfunc1(u), bicop.hinv1(u)

        return step, (pairs(device),)

    return build


clayton_copula = copula("clayton", 2.0, rotation=90)
gaussian_copula = copula("gaussian", 0.5)


def copula_fit(device):
    from torchvine import Bicop, BicopFamily, FitControlsBicop

    controls = FitControlsBicop(family_set=[BicopFamily.gaussian, BicopFamily.clayton])

    def step(u):
        bicop = Bicop.from_data(u, controls)
        return bicop.loglik(u)

    return step, (pairs(device),)


def copula_ranks(device):
    """Observations to ranks, and how much two of them depend on each other."""
    from torchvine import kendall_tau, spearman_rho, to_pseudo_obs

    def step(x):
        u = to_pseudo_obs(x)
        return u, kendall_tau(u[:, 0], u[:, 1]), spearman_rho(u[:, 0], u[:, 1])

    return step, (torch.randn(40, 2, device=device, dtype=torch.float64),)


def vine_sampling(device):
    from torchvine import Bicop, BicopFamily, DVineStructure, Vinecop

    def pair(theta):
        return Bicop(BicopFamily.clayton, 0, torch.tensor([theta], dtype=torch.float64, device=device))

    vine = Vinecop.from_structure(
        structure=DVineStructure([1, 2, 3]), pair_copulas=[[pair(2.0), pair(1.0)], [pair(0.5)]]
    )

    def step(u):
        return vine.rosenblatt(u), vine.inverse_rosenblatt(u), vine.pdf(u)

    return step, (torch.rand(20, 3, device=device, dtype=torch.float64).clamp(0.02, 0.98),)


def last_layer(kind, classes, **options):
    """A network whose last layer is Bayesian."""

    def build(device):
        import vbll

        model = nn.Sequential(
            nn.Linear(4, 16), nn.ELU(), getattr(vbll, kind)(16, classes or 1, regularization_weight=0.01, **options)
        ).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step(x, y):
            optimizer.zero_grad()
            out = model(x)
            loss = out.train_loss_fn(y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        y = torch.randint(classes, (12,), device=device) if classes else torch.randn(12, 1, device=device)
        return step, (torch.randn(12, 4, device=device), y)

    return build


last_layer_regression_training = last_layer("Regression", 0, parameterization="diagonal")
last_layer_classification_training = last_layer("DiscClassification", 3, parameterization="lowrank")
last_layer_generative_training = last_layer("GenClassification", 3, parameterization="diagonal")


def last_layer_prediction(device):
    import vbll

    model = nn.Sequential(
        nn.Linear(4, 16),
        nn.ELU(),
        vbll.DiscClassification(16, 3, regularization_weight=0.01, parameterization="dense", return_ood=True),
    ).to(device)
    model.eval()

    def step(x):
        with torch.no_grad():
            out = model(x)
            return out.predictive.probs, out.ood_scores

    return step, (torch.randn(12, 4, device=device),)


def last_layer_uncertainty(device):
    import vbll

    model = nn.Sequential(nn.Linear(1, 16), nn.ELU(), vbll.HetRegression(16, 1, regularization_weight=0.01)).to(device)
    model.eval()

    def step(x, y):
        with torch.no_grad():
            out = model(x)
            return out.predictive.mean, out.predictive.covariance, out.val_loss_fn(y)

    return step, (torch.randn(12, 1, device=device), torch.randn(12, 1, device=device))


def flow_of(device, kind, **options):
    import zflows.flow

    return getattr(zflows.flow, kind)(**options).to(device)


def boltzmann_generator_training(device):
    """A flow to the distribution that an energy gives."""
    from zflows.loss import reverse_KL
    from zflows.potential import Gaussian_Mixture

    flow = flow_of(device, "RealNVP", dimension=2, transforms=2, mixing="lu", hidden_features=(16,))
    target = Gaussian_Mixture([0.5, 0.5], [[-1.0, 0.0], [1.0, 0.0]], [[0.2, 0.2], [0.2, 0.2]], device=device)
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)

    def step(x):
        loss = reverse_KL(x, target, flow.t())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(32, 2, device=device),)


def spline_flow_training(device):
    from zflows.loss import forward_KL
    from zflows.potential import Uniform

    flow = flow_of(device, "NSF", a=[0.0, 0.0], b=[1.0, 1.0], bins=4, transforms=2, hidden_features=(16,))
    source = Uniform([0.0, 0.0], [1.0, 1.0], device=device)
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)

    def step(y):
        loss = forward_KL(y, source, flow.t())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(32, 2, device=device) * 0.9 + 0.05,)


def transport_flow_training(device):
    from zflows.loss import OT_loss
    from zflows.potential import Gaussian

    flow = flow_of(device, "OTFlow", dimension=3, hidden=16, layer=2, rank=2, nt=4)
    target = Gaussian([0.0] * 3, [1.0] * 3, device=device)
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)

    def step(x):
        loss = OT_loss(x, target, flow)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(16, 3, device=device),)


def circular_flow(device):
    flow = flow_of(device, "NCSF", a=[-1.0, -1.0], b=[1.0, 1.0], bins=4, transforms=2, hidden_features=(16,))
    flow.zeros()

    def step(x):
        transform = flow.t()
        y, ladj = transform.call_and_ladj(x)
        return transform.inv(y), ladj

    return step, (torch.rand(16, 2, device=device) * 2 - 1,)


def importance_resampling(device):
    """Weigh the samples of a flow and draw them again."""
    from zflows.potential import Gaussian
    from zflows.utils import compute_ESS, importance_weights, resample

    flow = flow_of(device, "RealNVP", dimension=2, transforms=2, hidden_features=(16,))
    source, target = Gaussian([0.0, 0.0], [1.0, 1.0], device=device), Gaussian([0.5, 0.0], [1.0, 0.5], device=device)

    def step(x):
        transform = flow.t()
        with torch.no_grad():
            samples = transform(x)
            weights = importance_weights(x, source, target, transform)
        return resample(samples, weights), compute_ESS(weights)

    return step, (torch.randn(32, 2, device=device),)
