"""Steps of normflows: densities that are learnt by forward and reverse divergence, and their samples."""

import torch


def forward_training(kind):
    """Fits a density to samples, and then draws from it."""

    def build(device):
        import normflows as nf

        flows = []
        for index in range(2):
            mask = torch.tensor([1.0, 0.0]) if index % 2 else torch.tensor([0.0, 1.0])
            if kind == "masked":
                flows += [
                    nf.flows.MaskedAffineFlow(mask, nf.nets.MLP([2, 16, 2]), nf.nets.MLP([2, 16, 2])),
                    nf.flows.ActNorm(2),
                ]
            elif kind == "coupled":
                flows += [
                    nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 16, 2], init_zeros=True)),
                    nf.flows.Permute(2, mode="swap"),
                ]
            elif kind == "spline":
                flows += [nf.flows.CoupledRationalQuadraticSpline(2, 1, 16), nf.flows.LULinearPermute(2)]
            elif kind == "autoregressive":
                flows += [
                    nf.flows.AutoregressiveRationalQuadraticSpline(2, 1, 16),
                    nf.flows.MaskedAffineAutoregressive(2, 16),
                ]
            elif kind == "residual":
                net = nf.nets.LipschitzMLP([2, 16, 2], init_zeros=True, lipschitz_const=0.9)
                flows += [nf.flows.Residual(net, reduce_memory=True), nf.flows.ActNorm(2)]
        model = nf.NormalizingFlow(nf.distributions.base.DiagGaussian(2), flows).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(x):
            optimizer.zero_grad()
            loss = model.forward_kld(x)
            loss.backward()
            optimizer.step()
            if kind == "residual":
                nf.utils.update_lipschitz(model, 3)
            with torch.no_grad():
                drawn, density = model.sample(8)
            return loss.detach(), drawn, density

        return step, (torch.randn(32, 2, device=device),)

    return build


masked_flow_training = forward_training("masked")
coupled_flow_training = forward_training("coupled")
spline_flow_training = forward_training("spline")
autoregressive_flow_training = forward_training("autoregressive")
residual_flow_training = forward_training("residual")


def reverse_training(device):
    """Fits a flow to a known density: two moons."""
    import normflows as nf

    flows = [nf.flows.Planar((2,)), nf.flows.Radial((2,))]
    model = nf.NormalizingFlow(nf.distributions.base.DiagGaussian(2), flows, nf.distributions.TwoMoons()).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss = model.reverse_kld(32) + model.reverse_alpha_div(16, alpha=0.5)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, ()


def images_training(device):
    """Glow of two levels, conditioned on classes."""
    import normflows as nf

    flows = [
        [nf.flows.GlowBlock(24, 16, split_mode="channel", scale=True), nf.flows.Squeeze()],
        [nf.flows.GlowBlock(12, 16, split_mode="channel", scale=True), nf.flows.Squeeze()],
    ]
    q0 = [nf.distributions.ClassCondDiagGaussian((24, 2, 2), 10), nf.distributions.ClassCondDiagGaussian((6, 4, 4), 10)]
    model = nf.MultiscaleFlow(q0, flows, [nf.flows.Merge()], transform=nf.transforms.Logit(0.05), class_cond=True).to(
        device
    )
    optimizer = torch.optim.Adamax(model.parameters(), lr=1e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = model.forward_kld(x, y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            return loss.detach(), model.sample(y=y[:2], temperature=0.7)

    return step, (torch.rand(4, 3, 8, 8, device=device), torch.randint(0, 10, (4,), device=device))


def tempered_chain(device):
    """Samples of a stochastic flow: Metropolis steps between layers, at a reference of mixtures."""
    import normflows as nf

    base = nf.distributions.GaussianMixture(4, 2)
    target = nf.distributions.CircularGaussianMixture()
    flows = [
        nf.flows.Planar((2,)),
        nf.flows.MetropolisHastings(target, nf.distributions.DiagGaussianProposal((2,), 0.1), 3),
        nf.flows.HamiltonianMonteCarlo(target, 2, torch.full((2,), -2.0), torch.zeros(2)),
    ]
    model = nf.NormalizingFlow(base, flows, target).to(device)

    def step():
        drawn, density = model.sample(16)
        return drawn.detach(), density.detach()

    return step, ()
