"""Steps of zuko, nflows and denoising-diffusion-pytorch, which learn densities and draw samples from them."""

import torch
from torch import nn


def fitted(name, **options):
    """A conditional flow of zuko: one training step, then samples and their densities."""

    def build(device):
        import zuko

        flow = getattr(zuko.flows, name)(features=3, context=2, **options).to(device)
        optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)

        def step(x, context):
            loss = -flow(context).log_prob(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                drawn = flow(context).sample((2,))
            return loss.detach(), drawn

        return step, (torch.randn(16, 3, device=device), torch.randn(16, 2, device=device))

    return build


spline_flow = fitted("NSF", transforms=2, hidden_features=(16,), bins=4)
autoregressive_flow = fitted("MAF", transforms=2, hidden_features=(16,))
continuous_flow = fitted("CNF", hidden_features=(16,))
mixture = fitted("GMM", components=3)
monotonic_flow = fitted("UNAF", transforms=1, hidden_features=(16,))
polynomial_flow = fitted("SOSPF", transforms=1, hidden_features=(16,))


def coupled_splines(device):
    """A flow of nflows from coupled splines, its loss and its samples."""
    from nflows import distributions, flows, transforms
    from nflows import nn as nets

    def network(inputs, outputs):
        return nets.nets.ResidualNet(inputs, outputs, hidden_features=16, num_blocks=1)

    coupling = transforms.PiecewiseRationalQuadraticCouplingTransform(
        mask=torch.tensor([1, 0, 1, 0]), transform_net_create_fn=network, num_bins=4, tails="linear", tail_bound=3.0
    )
    chain = transforms.CompositeTransform([coupling, transforms.RandomPermutation(4), transforms.ActNorm(4)])
    flow = flows.Flow(chain, distributions.StandardNormal([4])).to(device)
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)

    def step(x):
        loss = -flow.log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            return loss.detach(), flow.sample(8)

    return step, (torch.randn(32, 4, device=device),)


def masked_autoregression(device):
    """A flow of nflows that masks its layers, with batch norm between and a mixture of linear maps."""
    from nflows import distributions, flows, transforms

    chain = transforms.CompositeTransform(
        [
            transforms.MaskedAffineAutoregressiveTransform(features=4, hidden_features=16),
            transforms.BatchNorm(4),
            transforms.LULinear(4),
            transforms.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
                features=4, hidden_features=16, num_bins=4, tails="linear"
            ),
            transforms.QRLinear(4, num_householder=2),
        ]
    )
    flow = flows.Flow(chain, distributions.StandardNormal([4])).to(device)
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)

    def step(x):
        loss = -flow.log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(32, 4, device=device),)


def network_of(where):
    from denoising_diffusion_pytorch import Unet

    return Unet(dim=8, dim_mults=(1, 2), flash_attn=False, attn_dim_head=8, attn_heads=2).to(where)


def image_diffusion(device):
    from denoising_diffusion_pytorch import GaussianDiffusion

    diffusion = GaussianDiffusion(network_of(device), image_size=16, timesteps=20, objective="pred_v").to(device)
    optimizer = torch.optim.Adam(diffusion.parameters(), lr=1e-3)

    def step(x):
        loss = diffusion(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(2, 3, 16, 16, device=device),)


def implicit_samples(device):
    from denoising_diffusion_pytorch import GaussianDiffusion

    diffusion = GaussianDiffusion(network_of(device), image_size=16, timesteps=20, sampling_timesteps=3).to(device)

    @torch.no_grad()
    def step():
        return diffusion.sample(batch_size=2)

    return step, ()


def elucidated_diffusion(device):
    """Its loss, and a short sampler of second order."""
    from denoising_diffusion_pytorch import ElucidatedDiffusion, Unet

    net = Unet(dim=8, dim_mults=(1, 2), flash_attn=False, attn_dim_head=8, attn_heads=2, learned_sinusoidal_cond=True)
    diffusion = ElucidatedDiffusion(net, image_size=16, num_sample_steps=3).to(device)

    def step(x):
        loss = diffusion(x)
        loss.backward()
        with torch.no_grad():
            return loss.detach(), diffusion.sample(batch_size=2)

    return step, (torch.rand(2, 3, 16, 16, device=device),)


def continuous_time_diffusion(device):
    from denoising_diffusion_pytorch import ContinuousTimeGaussianDiffusion, Unet

    net = Unet(dim=8, dim_mults=(1, 2), flash_attn=False, attn_dim_head=8, attn_heads=2, learned_sinusoidal_cond=True)
    diffusion = ContinuousTimeGaussianDiffusion(net, image_size=16, num_sample_steps=3).to(device)

    def step(x):
        loss = diffusion(x)
        loss.backward()
        with torch.no_grad():
            return loss.detach(), diffusion.sample(batch_size=2)

    return step, (torch.rand(2, 3, 16, 16, device=device),)


def sequence_diffusion(device):
    from denoising_diffusion_pytorch import GaussianDiffusion1D, Unet1D

    net = Unet1D(dim=8, dim_mults=(1, 2), channels=4)
    diffusion = GaussianDiffusion1D(net, seq_length=16, timesteps=10, objective="pred_v").to(device)

    def step(x):
        loss = diffusion(x)
        loss.backward()
        with torch.no_grad():
            return loss.detach(), diffusion.sample(batch_size=2)

    return step, (torch.rand(2, 4, 16, device=device),)
