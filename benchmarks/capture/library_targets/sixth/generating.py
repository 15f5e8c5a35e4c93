"""Steps of rectified_flow_pytorch, torchflows and gfn: rectified flows, invertible flows, and sampled trajectories."""

import torch


def straight_flow_training(device):
    from rectified_flow_pytorch import RectifiedFlow, Unet

    model = Unet(dim=8, dim_mults=(1, 2), attn_heads=2, attn_dim_head=8)
    flow = RectifiedFlow(model, data_shape=(3, 8, 8), loss_fn="pseudo_huber").to(device)
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)

    def step(images):
        loss = flow(images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(2, 3, 8, 8, device=device),)


def straight_flow_sampling(device):
    from rectified_flow_pytorch import RectifiedFlow, Unet

    model = Unet(dim=8, dim_mults=(1, 2), attn_heads=2, attn_dim_head=8)
    flow = RectifiedFlow(model, data_shape=(3, 8, 8)).to(device)

    def step():
        return flow.sample(batch_size=2, steps=3)

    return step, ()


def mean_flow_training(device):
    from rectified_flow_pytorch import MeanFlow, Unet

    model = Unet(dim=8, dim_mults=(1, 2), attn_heads=2, attn_dim_head=8, accept_dest_time=True)
    flow = MeanFlow(model, data_shape=(3, 8, 8)).to(device)
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)

    def step(images):
        loss = flow(images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), flow.sample(batch_size=2)

    return step, (torch.rand(2, 3, 8, 8, device=device),)


def inverted_flow(path, name, sampled=True, **options):
    """A training step by likelihood, and samples."""

    def build(device):
        import importlib

        from torchflows.flows import Flow

        made = getattr(importlib.import_module(f"torchflows.bijections.{path}"), name)
        flow = Flow(made((3,), **options)).to(device)
        optimizer = torch.optim.AdamW(flow.parameters(), lr=1e-3)

        def step(x):
            optimizer.zero_grad()
            loss = -flow.log_prob(x).mean() + flow.regularization()
            loss.backward()
            optimizer.step()
            return loss.detach(), flow.sample(4, no_grad=True) if sampled else None

        return step, (torch.randn(6, 3, device=device),)

    return build


AUTOREGRESSIVE = "finite.autoregressive.architectures"
RESIDUAL = "finite.residual.architectures"
affine_flow_training = inverted_flow(AUTOREGRESSIVE, "RealNVP")
masked_flow_training = inverted_flow(AUTOREGRESSIVE, "MAF")
spline_flow_training = inverted_flow(AUTOREGRESSIVE, "CouplingRQNSF")
rational_flow_training = inverted_flow(AUTOREGRESSIVE, "MaskedAutoregressiveLRS")
sigmoid_flow_training = inverted_flow(AUTOREGRESSIVE, "CouplingDeepSF", sampled=False)
residual_flow_training = inverted_flow(RESIDUAL, "ResFlow", sampled=False)
invertible_network_training = inverted_flow(RESIDUAL, "InvertibleResNet", sampled=False)


def fitted_flow(device):
    """The library's own fit, of two epochs."""
    from torchflows.bijections.finite.autoregressive.architectures import NICE
    from torchflows.flows import Flow

    flow = Flow(NICE((3,))).to(device)

    def step(x, validation):
        flow.fit(x, n_epochs=2, batch_size=4, x_val=validation, early_stopping=True)
        return flow.log_prob(validation).detach()

    return step, (torch.randn(8, 3, device=device), torch.randn(4, 3, device=device))


def balanced_turn(kind, **options):
    """Trajectories on a grid are drawn, and their balance is trained."""

    def build(device):
        from gfn import gflownet
        from gfn.estimators import DiscretePolicyEstimator, ScalarEstimator
        from gfn.gym import HyperGrid
        from gfn.preprocessors import KHotPreprocessor
        from gfn.samplers import Sampler
        from gfn.utils.modules import MLP

        env = HyperGrid(ndim=2, height=8, device=device)
        seen = KHotPreprocessor(height=env.height, ndim=env.ndim)
        forward = MLP(input_dim=seen.output_dim, output_dim=env.n_actions, hidden_dim=16)
        backward = MLP(input_dim=seen.output_dim, output_dim=env.n_actions - 1, hidden_dim=16, trunk=forward.trunk)
        pf = DiscretePolicyEstimator(forward, env.n_actions, preprocessor=seen)
        pb = DiscretePolicyEstimator(backward, env.n_actions, preprocessor=seen, is_backward=True)
        if kind == "FMGFlowNet":
            net = gflownet.FMGFlowNet(pf)
        elif kind in ("DBGFlowNet", "SubTBGFlowNet"):
            flow = ScalarEstimator(MLP(input_dim=seen.output_dim, output_dim=1, hidden_dim=16), preprocessor=seen)
            net = getattr(gflownet, kind)(pf=pf, pb=pb, logF=flow, **options)
        else:
            net = getattr(gflownet, kind)(pf=pf, pb=pb, **options)
        net = net.to(device)
        sampler = Sampler(estimator=pf)
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

        def step():
            drawn = sampler.sample_trajectories(env, n=4, save_logprobs=True, epsilon=0.1)
            optimizer.zero_grad()
            loss = net.loss(env, net.to_training_samples(drawn), recalculate_all_logprobs=False)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, ()

    return build


trajectory_balance_training = balanced_turn("TBGFlowNet")
detailed_balance_training = balanced_turn("DBGFlowNet")
subtrajectory_training = balanced_turn("SubTBGFlowNet", weighting="geometric_within")
flow_matching_training = balanced_turn("FMGFlowNet")
variance_balance_training = balanced_turn("LogPartitionVarianceGFlowNet")
