"""Steps of norse and ncps: spiking neurons, liquid networks."""

import torch
from torch import nn


def spiking_training(device):
    """A spiking classifier over time with a leaky readout."""
    import norse.torch as norse

    model = norse.SequentialState(
        norse.LIFRecurrent(6, 8, p=norse.LIFParameters(alpha=torch.tensor(100.0)), dt=0.01),
        nn.Linear(8, 3, bias=False),
        norse.LI(),
    ).to(device)
    encoder = norse.PoissonEncoder(seq_length=5, f_max=200)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x, y):
        voltages, _state = model(encoder(x))
        loss = nn.functional.nll_loss(nn.functional.log_softmax(voltages.max(0).values, dim=1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(4, 6, device=device), torch.randint(0, 3, (4,), device=device))


def convolved_spikes_training(device):
    import norse.torch as norse

    model = norse.SequentialState(
        nn.Conv2d(1, 2, 3, padding=1),
        norse.LIFCell(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        norse.LIFRefracCell(),
        nn.Linear(18, 3),
        norse.LICell(),
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    def step(frames, y):
        state, voltages = None, []
        for frame in frames:
            out, state = model(frame, state)
            voltages.append(out)
        loss = nn.functional.cross_entropy(torch.stack(voltages).max(0).values, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(3, 2, 1, 6, 6, device=device), torch.randint(0, 3, (2,), device=device))


def adaptive_neurons(device):
    """Recurrent neurons of several kinds through a few steps of time."""
    import norse.torch as norse

    cells = [
        kind(5, 4).to(device)
        for kind in (
            norse.LSNNRecurrentCell,
            norse.LIFAdExRecurrentCell,
            norse.LIFExRecurrentCell,
            norse.LIFRefracRecurrentCell,
        )
    ]

    def step(currents):
        outs = []
        for cell in cells:
            state = None
            for current in currents:
                spikes, state = cell(current, state)
            outs.append(spikes.detach())
        return outs

    return step, (torch.rand(4, 3, 5, device=device),)


def encoded_spikes(device):
    import norse.torch as norse

    constant = norse.ConstantCurrentLIFEncoder(6)
    population = norse.PopulationEncoder(4)
    latency = norse.SpikeLatencyLIFEncoder(6)

    def step(x):
        return constant(x), population(x), latency(x * 5)

    return step, (torch.rand(3, 4, device=device),)


def plastic_spikes(device):
    """Weights that change by the times of spikes."""
    import norse.torch as norse
    from norse.torch.functional.stdp import STDPParameters, STDPState, stdp_step_linear

    cell = norse.LIFCell()

    def step(spikes, weight):
        state, plastic = (
            None,
            STDPState(t_pre=torch.zeros_like(spikes[0]), t_post=torch.zeros_like(weight[:, :3].T[:2])),
        )
        for now in spikes:
            out, state = cell(now @ weight.T, state)
            weight, plastic = stdp_step_linear(now, out, weight, plastic, STDPParameters(), dt=0.001)
        return weight, out

    return step, ((torch.rand(4, 2, 5, device=device) > 0.5).float(), torch.rand(3, 5, device=device))


def liquid(kind, wired=False, **options):
    def build(device):
        from ncps import torch as liquids
        from ncps.wirings import AutoNCP

        units = AutoNCP(12, 3) if wired else 8
        model = getattr(liquids, kind)(4, units, **options).to(device)
        head = nn.Linear(3 if wired else options.get("proj_size", 8), 2).to(device)
        optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-3)

        def step(x, y):
            out, _hidden = model(x)
            loss = nn.functional.mse_loss(head(out), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if kind == "LTC" and not options.get("implicit_param_constraints", True):
                model.rnn_cell.apply_weight_constraints()
            return loss.detach()

        return step, (
            torch.randn(3, 5, 4, device=device),
            torch.randn(3, 5, 2, device=device),
        )

    return build


closed_form_training = liquid("CfC", mode="default", backbone_units=8, backbone_layers=1)
wired_training = liquid("CfC", wired=True, mode="no_gate")
memory_training = liquid("CfC", mixed_memory=True, proj_size=6, mode="pure")
liquid_training = liquid("LTC", wired=True, ode_unfolds=2)
constrained_liquid_training = liquid("LTC", ode_unfolds=2, mixed_memory=True, implicit_param_constraints=False)
