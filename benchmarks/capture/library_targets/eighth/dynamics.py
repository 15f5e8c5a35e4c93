"""Steps of torchdde, neural_ssm, auto_esn, spikingjelly and torch_sla: delays, states, reservoirs, spikes, matrices."""

import torch
from torch import nn


def delayed(solver, adaptive=False):
    """A logistic equation with a delay."""

    def build(device):
        import torchdde

        ts = torch.linspace(0.0, 2.0, 6, device=device)
        delays = torch.tensor([1.0], device=device)
        options = {}
        if adaptive:
            options["stepsize_controller"] = torchdde.AdaptiveStepSizeController(1e-4, 1e-3)

        def f(t, y, args, history):
            return y * (1 - history[0])

        def step(values):
            return torchdde.integrate(
                f,
                getattr(torchdde, solver)(),
                ts[0],
                ts[-1],
                ts,
                lambda t: values,
                None,
                dt0=ts[1] - ts[0],
                delays=delays,
                **options,
            )

        return step, (torch.rand(4, 1, device=device) + 0.5,)

    return build


delay_fixed = delayed("RK2")
delay_adaptive = delayed("Dopri5", adaptive=True)


def delay_training(device):
    """The delay is learned, with the adjoint method."""
    from torchdde import RK4, integrate

    class Neural(nn.Module):
        def __init__(self):
            super().__init__()
            self.delays = nn.Parameter(torch.tensor([0.6]))
            self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))

        def forward(self, t, y, args, history):
            return self.net(torch.cat([y, history[0]], -1))

    model = Neural().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    ts = torch.linspace(0.0, 1.0, 5, device=device)

    def step(start, target):
        optimizer.zero_grad()
        out = integrate(
            model,
            RK4(),
            ts[0],
            ts[-1],
            ts,
            lambda t: start,
            None,
            dt0=ts[1] - ts[0],
            delays=model.delays,
            discretize_then_optimize=True,
        )
        loss = nn.functional.mse_loss(out, target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(3, 2, device=device), torch.randn(3, 5, 2, device=device))


def ordinary_training(device):
    """No delays; the gradients are those of the adjoint equation."""
    from torchdde import RK4, integrate

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

        def forward(self, t, y, args):
            return self.net(y)

    model = Field().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    ts = torch.linspace(0.0, 1.0, 5, device=device)

    def step(start, target):
        optimizer.zero_grad()
        out = integrate(model, RK4(), ts[0], ts[-1], ts, start, None, dt0=ts[1] - ts[0])
        loss = nn.functional.mse_loss(out, target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(3, 2, device=device), torch.randn(3, 5, 2, device=device))


def implicit_solution(device):
    from torchdde import ImplicitEuler, integrate

    ts = torch.linspace(0.0, 1.0, 5, device=device)
    return lambda y0: integrate(lambda t, y, args: -5 * y, ImplicitEuler(), ts[0], ts[-1], ts, y0, None, dt0=ts[1]), (
        torch.rand(4, 1, device=device),
    )


def states_training(mode, **options):
    """A sequence to a sequence through a state-space model."""

    def build(device):
        from neural_ssm import DeepSSM

        model = DeepSSM(d_input=3, d_output=2, d_model=8, d_state=8, n_layers=2, **options).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step(u, target):
            optimizer.zero_grad()
            y, _ = model(u, mode=mode)
            loss = nn.functional.mse_loss(y, target)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (torch.randn(4, 16, 3, device=device), torch.randn(4, 16, 2, device=device))

    return build


states_selective_training = states_training("scan", param="tv", ff="MBLIP", gamma=1.5)
states_linear_training = states_training("conv", param="lru")
states_bounded_training = states_training("scan", param="l2n", ff="LGLU2", gamma=1.0)


def states_streaming(device):
    from neural_ssm import DeepSSM

    model = DeepSSM(d_input=3, d_output=2, d_model=8, d_state=8, n_layers=2, param="tv", ff="MBLIP", gamma=1.5)
    model = model.to(device).eval()

    def step(u):
        with torch.no_grad():
            first, state = model(u[:, :8], mode="scan")
            second, state = model(u[:, 8:], state=state, mode="scan", reset_state=False)
            return torch.cat([first, second], 1)

    return step, (torch.randn(4, 16, 3, device=device),)


def states_contextual(device):
    from neural_ssm import ContextualDeepSSM

    controller = ContextualDeepSSM(
        d_input=3,
        d_context=2,
        d_output=2,
        context_modes=("input", "gate", "mixer", "select"),
        context_filter="difference",
        d_features=8,
        mixer_bound=0.8,
        d_model=8,
        d_state=8,
        n_layers=2,
        param="tv",
        ff="MBLIP",
        gamma=1.5,
    ).to(device)
    return lambda disturbance, context: controller(disturbance, context, mode="scan")[0], (
        torch.randn(4, 16, 3, device=device),
        torch.randn(4, 16, 2, device=device),
    )


def states_certificate(device):
    from neural_ssm import DeepSSM

    model = DeepSSM(d_input=3, d_output=2, d_model=8, d_state=8, n_layers=2, param="tv", ff="MBLIP", gamma=1.5)
    model = model.to(device)
    return lambda scale: model.certified_gain_bound() * scale, (torch.ones((), device=device),)


def reservoir(kind, **options):
    """An echo state network that is fitted and forecasts."""

    def build(device):
        import auto_esn.esn.esn

        esn = getattr(auto_esn.esn.esn, kind)(input_size=1, hidden_size=20, washout=5, **options)
        if device.type == "cuda":
            esn.to_cuda()

        def step(x, y):
            esn.fit(x, y)
            return esn(x)

        return step, (torch.randn(30, 1, device=device), torch.randn(30, 1, device=device))

    return build


reservoir_deep = reservoir("DeepESN", num_layers=2)
reservoir_groups = reservoir("GroupOfESN", groups=2)


def reservoir_forecast(device):
    """Each forecast is the next input."""
    from auto_esn.esn.esn import DeepESN
    from auto_esn.esn.reservoir.activation import tanh

    esn = DeepESN(input_size=1, hidden_size=20, num_layers=1, activation=tanh(leaky_rate=0.8), washout=2)
    if device.type == "cuda":
        esn.to_cuda()

    def step(x):
        esn.fit(x[:-1], x[1:])
        last, found = x[-1:], []
        for _ in range(4):
            last = esn(last)
            found.append(last)
        return torch.cat(found)

    return step, (torch.randn(20, 1, device=device),)


def spiking_training(device):
    """The first example: images as trains of spikes."""
    from spikingjelly.activation_based import encoding, functional, layer, neuron, surrogate

    net = nn.Sequential(
        layer.Flatten(),
        layer.Linear(8 * 8, 10, bias=False),
        neuron.LIFNode(tau=2.0, surrogate_function=surrogate.ATan()),
    ).to(device)
    encoder = encoding.PoissonEncoder()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step(images, labels):
        optimizer.zero_grad()
        rate = sum(net(encoder(images)) for _ in range(4)) / 4
        loss = nn.functional.mse_loss(rate, nn.functional.one_hot(labels, 10).float())
        loss.backward()
        optimizer.step()
        functional.reset_net(net)
        return loss.detach()

    return step, (torch.rand(4, 1, 8, 8, device=device), torch.randint(10, (4,), device=device))


def spiking_images_training(device):
    """All steps of time at once."""
    from spikingjelly.activation_based import functional, layer, neuron, surrogate

    net = nn.Sequential(
        layer.Conv2d(1, 4, 3, padding=1, bias=False),
        layer.BatchNorm2d(4),
        neuron.IFNode(surrogate_function=surrogate.ATan()),
        layer.MaxPool2d(2, 2),
        layer.Flatten(),
        layer.Linear(4 * 16, 10),
        neuron.ParametricLIFNode(surrogate_function=surrogate.Sigmoid(), detach_reset=True),
    ).to(device)
    functional.set_step_mode(net, "m")
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step(images, labels):
        optimizer.zero_grad()
        out = net(images.unsqueeze(0).repeat(4, 1, 1, 1, 1))
        loss = functional.temporal_efficient_training_cross_entropy(out, labels)
        loss.backward()
        optimizer.step()
        functional.reset_net(net)
        return loss.detach()

    return step, (torch.rand(4, 1, 8, 8, device=device), torch.randint(10, (4,), device=device))


def spiking_attention(device):
    from spikingjelly.activation_based import functional, layer, neuron

    net = nn.Sequential(layer.SpikingSelfAttention(16, num_heads=2), neuron.PSN(T=4)).to(device)
    functional.set_step_mode(net, "m")

    def step(x):
        with torch.no_grad():
            out = net(x)
        functional.reset_net(net)
        return out

    return step, (torch.rand(4, 2, 16, 9, device=device),)


def spiking_latency(device):
    """Bright pixels spike early."""
    from spikingjelly.activation_based import encoding, functional, layer, neuron

    encoder = encoding.LatencyEncoder(4)
    net = nn.Sequential(layer.Linear(6, 4), neuron.EIFNode(tau=2.0)).to(device)

    def step(x):
        with torch.no_grad():
            out = sum(net(encoder(x)) for _ in range(4))
        functional.reset_net(net)
        encoder.reset()
        return out

    return step, (torch.rand(3, 6, device=device),)


def spiking_recurrent(device):
    from spikingjelly.activation_based import functional, layer, neuron

    net = layer.LinearRecurrentContainer(neuron.IzhikevichNode(), in_features=6, out_features=6).to(device)

    def step(x):
        out = torch.stack([net(frame) for frame in x])
        functional.reset_net(net)
        return out

    return step, (torch.rand(5, 3, 6, device=device),)


def tridiagonal(device, n=24):
    from torch_sla import SparseTensor

    i = torch.arange(n, device=device)
    row, col = torch.cat([i, i[1:], i[:-1]]), torch.cat([i, i[:-1], i[1:]])
    values = torch.cat([torch.full((n,), 4.0), torch.full((2 * n - 2,), -1.0)]).to(device, torch.float64)
    return SparseTensor, values, row, col


def sparse_solution(method):
    def build(device):
        SparseTensor, values, row, col = tridiagonal(device)
        A = SparseTensor(values, row, col, (24, 24))
        return lambda b: A.solve(b, backend="pytorch", method=method), (
            torch.randn(24, dtype=torch.float64, device=device),
        )

    return build


sparse_conjugate = sparse_solution("cg")
sparse_residual = sparse_solution("gmres")


def sparse_training(device):
    """Gradients of the entries of the matrix."""
    SparseTensor, values, row, col = tridiagonal(device)

    def step(scale, b):
        v = (values * scale).requires_grad_(True)
        x = SparseTensor(v, row, col, (24, 24)).solve(b, backend="pytorch", method="bicgstab")
        x.square().sum().backward()
        return v.grad

    return step, (
        torch.ones(70, dtype=torch.float64, device=device),
        torch.randn(24, dtype=torch.float64, device=device),
    )


def sparse_batch(device):
    SparseTensor, values, row, col = tridiagonal(device)

    def step(scales, b):
        A = SparseTensor(scales[:, None] * values, row, col, (3, 24, 24))
        return A.solve(b, backend="pytorch", method="cg")

    return step, (
        torch.rand(3, dtype=torch.float64, device=device) + 0.5,
        torch.randn(3, 24, dtype=torch.float64, device=device),
    )


def sparse_nonlinear(device):
    from torch_sla import nonlinear_solve

    def step(u0, f):
        return nonlinear_solve(lambda u, f: u + 0.1 * u**3 - f, u0, f, method="newton", tol=1e-8)

    return step, (torch.zeros(8, dtype=torch.float64, device=device), torch.rand(8, dtype=torch.float64, device=device))


def sparse_properties(device):
    SparseTensor, values, row, col = tridiagonal(device)

    def step(x):
        A = SparseTensor(values, row, col, (24, 24))
        return A @ x, (A @ A).norm("fro"), A.sum(axis=1), A.is_symmetric(), A.is_positive_definite()

    return step, (torch.randn(24, dtype=torch.float64, device=device),)
