"""Steps of FrEIA: invertible networks of several blocks, with conditions, forwards and backwards."""

import torch
from torch import nn


def subnet(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs))


def subnet_of_pictures(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, outputs, 3, padding=1))


def inverted(*blocks, dims=(6,)):
    """Likelihood training, then samples by the inverse."""

    def build(device):
        import FrEIA.framework as Ff
        import FrEIA.modules as Fm

        net = Ff.SequenceINN(*dims)
        for name, options in blocks:
            net.append(getattr(Fm, name), **options)
        net = net.to(device)
        optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=1e-3)

        def step(x):
            z, jacobian = net(x)
            loss = (0.5 * z.flatten(1).square().sum(1) - jacobian).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach(), net(torch.randn_like(z).requires_grad_(), rev=True)[0].detach()

        return step, (torch.rand(8, *dims, device=device) * 0.8 + 0.1,)

    return build


all_in_one_training = inverted(*[("AllInOneBlock", {"subnet_constructor": subnet, "permute_soft": True})] * 2)
learned_permutation_training = inverted(
    (
        "AllInOneBlock",
        {
            "subnet_constructor": subnet,
            "learned_householder_permutation": 2,
            "gin_block": True,
            "reverse_permutation": True,
        },
    )
)
glow_training = inverted(
    ("ActNorm", {}),
    ("GLOWCouplingBlock", {"subnet_constructor": subnet}),
    ("PermuteRandom", {"seed": 1}),
    ("RNVPCouplingBlock", {"subnet_constructor": subnet, "clamp": 1.5}),
)
additive_training = inverted(
    ("NICECouplingBlock", {"subnet_constructor": subnet}),
    ("HouseholderPerm", {"n_reflections": 2}),
    ("GINCouplingBlock", {"subnet_constructor": subnet}),
)
orthogonal_flow_training = inverted(
    ("OrthogonalTransform", {"correction_interval": 2}),
    ("AffineCouplingOneSided", {"subnet_constructor": subnet}),
    ("InvAutoAct", {}),
)
residual_flow_training = inverted(
    ("IResNetLayer", {"internal_size": 16, "n_internal_layers": 2, "jacobian_iterations": 4})
)
picture_flow_training = inverted(
    ("HaarDownsampling", {}),
    ("GLOWCouplingBlock", {"subnet_constructor": subnet_of_pictures}),
    ("IRevNetDownsampling", {}),
    ("Flatten", {}),
    dims=(2, 8, 8),
)
sigmoid_flow_training = inverted(
    ("AllInOneBlock", {"subnet_constructor": subnet}), ("LearnedElementwiseScaling", {}), ("InvertibleSigmoid", {})
)


def conditioned_graph(device):
    """A graph of nodes with a condition and two outputs."""
    import FrEIA.framework as Ff
    import FrEIA.modules as Fm

    source, condition = Ff.InputNode(6, name="in"), Ff.ConditionNode(3, name="cond")
    first = Ff.Node(source, Fm.GLOWCouplingBlock, {"subnet_constructor": subnet}, conditions=condition)
    split = Ff.Node(first, Fm.Split, {"section_sizes": [2, 4]})
    out = Ff.OutputNode(split.out0)
    second = Ff.Node(split.out1, Fm.ConditionalAffineTransform, {"subnet_constructor": subnet}, conditions=condition)
    net = Ff.GraphINN([source, condition, first, split, out, second, Ff.OutputNode(second)]).to(device)

    def step(x, c):
        (a, b), jacobian = net(x, c=[c])
        loss = (a.square().sum(1) / 2 + b.square().sum(1) / 2 - jacobian).mean()
        loss.backward()
        return loss.detach(), net([a.detach(), b.detach()], c=[c], rev=True)[0], net.log_jacobian_numerical(x, c=[c])

    return step, (torch.randn(6, 6, device=device), torch.randn(6, 3, device=device))


def conditioned_sequence(device):
    import FrEIA.framework as Ff
    import FrEIA.modules as Fm

    net = Ff.SequenceINN(4)
    net.append(Fm.AllInOneBlock, cond=0, cond_shape=(2,), subnet_constructor=subnet)
    net.append(Fm.FixedLinearTransform, M=torch.randn(4, 4), b=torch.zeros(4))
    net = net.to(device)

    def step(x, c):
        z, jacobian = net(x, c=[c])
        return z, jacobian, net(z, c=[c], rev=True)

    return step, (torch.randn(6, 4, device=device), torch.randn(6, 2, device=device))
