"""Steps of snntorch: spiking neurons, encodings of spikes, losses of spikes."""

import torch
from torch import nn


def spiked(name, loss, options=None, targets=None, neuron_kw=None, steps=5):
    """A spiking network over several time steps, with a loss of snntorch."""

    def build(device):
        import snntorch as snn
        from snntorch import functional, surrogate

        grad = surrogate.fast_sigmoid(slope=25)
        kw = neuron_kw or {"beta": 0.9}
        first = getattr(snn, name)(spike_grad=grad, **kw)
        last = snn.Leaky(beta=0.8, spike_grad=surrogate.atan(), learn_beta=True)
        net = nn.ModuleList([nn.Linear(8, 16), first, nn.Linear(16, 4), last]).to(device)
        criterion = getattr(functional, loss)(**(options or {}))
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

        def states():
            made = first.reset_mem() if hasattr(first, "reset_mem") else None
            return made if isinstance(made, tuple) else (made,)

        def step(x, y):
            hidden, mem = states(), last.reset_mem()
            spikes, mems = [], []
            for at in range(steps):
                out, *hidden = first(net[0](x[at]), *hidden)
                spike, mem = last(net[2](out), mem)
                spikes.append(spike)
                mems.append(mem)
            value = torch.stack(mems if "membrane" in loss else spikes)
            found = criterion(value, y)
            optimizer.zero_grad()
            found.backward()
            optimizer.step()
            return found.detach(), functional.accuracy_rate(torch.stack(spikes), y)

        return step, (torch.rand(steps, 6, 8, device=device), torch.randint(0, 4, (6,), device=device))

    return build


leaky_rate_training = spiked("Leaky", "ce_rate_loss")
synaptic_count_training = spiked(
    "Synaptic",
    "mse_count_loss",
    {"correct_rate": 0.8, "incorrect_rate": 0.2},
    neuron_kw={"alpha": 0.9, "beta": 0.8, "reset_mechanism": "zero"},
)
recurrent_spikes_training = spiked("RLeaky", "ce_max_membrane_loss", neuron_kw={"beta": 0.9, "linear_features": 16})
lapicque_training = spiked("Lapicque", "ce_count_loss", neuron_kw={"beta": 0.5})
alpha_training = spiked(
    "Alpha", "mse_membrane_loss", {"on_target": 1.2, "off_target": 0.3}, neuron_kw={"alpha": 0.9, "beta": 0.8}
)
temporal_training = spiked(
    "Leaky", "mse_temporal_loss", {"on_target": 1, "off_target": 4}, neuron_kw={"beta": 0.9, "learn_threshold": True}
)
quantised_state_training = spiked("Leaky", "ce_temporal_loss", neuron_kw={"beta": 0.7, "inhibition": True})


def hidden_state_training(device):
    """Neurons that keep their state, in a Sequential, reset between steps."""
    import snntorch as snn
    from snntorch import utils

    net = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.MaxPool2d(2),
        snn.Leaky(beta=0.9, init_hidden=True),
        nn.Flatten(),
        nn.Linear(36, 4),
        snn.Leaky(beta=0.9, init_hidden=True, output=True),
    ).to(device)

    def step(x, y):
        utils.reset(net)
        total = 0
        for _ in range(3):
            spikes, mem = net(x)
            total = total + nn.functional.cross_entropy(mem, y)
        total.backward()
        return total.detach(), spikes

    return step, (torch.rand(4, 1, 8, 8, device=device), torch.randint(0, 4, (4,), device=device))


def spiking_memory(device):
    import snntorch as snn

    cell, conv = snn.SLSTM(8, 16).to(device), snn.SConv2dLSTM(1, 4, 3, max_pool=2).to(device)

    def step(x, pictures):
        syn, mem = cell.reset_mem()
        csyn, cmem = conv.reset_mem()
        for at in range(3):
            spikes, syn, mem = cell(x[at], syn, mem)
            cspikes, csyn, cmem = conv(pictures, csyn, cmem)
        return spikes, cspikes

    return step, (torch.rand(3, 4, 8, device=device), torch.rand(2, 1, 8, 8, device=device))


def encoded_spikes(device):
    from snntorch import spikegen

    def step(data, labels):
        rate = spikegen.rate(data, num_steps=6, gain=0.8)
        latency = spikegen.latency(data, num_steps=6, tau=5, threshold=0.01, normalize=True, linear=True, clip=True)
        delta = spikegen.delta(data, threshold=0.1, off_spike=True)
        targets = spikegen.targets_rate(labels, num_classes=4, num_steps=6)
        return (
            rate,
            latency,
            delta,
            targets,
            spikegen.targets_latency(labels, num_classes=4, num_steps=6, tau=1, threshold=0.01, normalize=True),
        )

    return step, (torch.rand(5, 8, device=device), torch.randint(0, 4, (5,), device=device))
