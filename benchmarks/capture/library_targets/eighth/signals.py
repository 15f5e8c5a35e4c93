"""Steps of complextorch, torchrir, ci_sdr, mtst and autolrp: complex networks, rooms, separation, series, relevance."""

import torch
from torch import nn


def complex_training(device):
    import complextorch as cT

    model = nn.Sequential(
        cT.nn.Conv1d(5, 8, kernel_size=3, padding=1),
        cT.nn.BatchNorm1d(8),
        cT.nn.modReLU(learnable=True),
        cT.nn.Conv1d(8, 2, kernel_size=3, padding=1),
    ).to(device)
    loss_of = cT.nn.SplitMSE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (
        torch.randn(4, 5, 14, dtype=torch.cfloat, device=device),
        torch.randn(4, 2, 14, dtype=torch.cfloat, device=device),
    )


def complex_attention(device):
    import complextorch as cT

    layer = cT.nn.TransformerEncoderLayer(d_model=16, nhead=2, dim_feedforward=32)
    model = cT.nn.TransformerEncoder(layer, num_layers=2).to(device).eval()

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, (torch.randn(3, 6, 16, dtype=torch.cfloat, device=device),)


def complex_spectra(device):
    """Sound to complex spectra to a state-space block."""
    import complextorch as cT

    stft, block = cT.nn.STFT(n_fft=16, hop_length=4).to(device), cT.nn.S4DBlock(16, state_size=8).to(device)

    def step(sound):
        spectra = stft(sound)
        return block(spectra.transpose(1, 2))

    return step, (torch.randn(2, 100, device=device),)


def complex_classifier(device):
    from complextorch.models import ViT

    model = ViT(image_size=16, patch_size=8, in_channels=1, num_classes=4, dim=16, depth=1, heads=2, mlp_dim=32)
    model = model.to(device).train()

    def step(images, labels):
        loss = nn.functional.cross_entropy(model(images).abs(), labels)
        loss.backward()
        return loss.detach()

    return step, (
        torch.randn(2, 1, 16, 16, dtype=torch.cfloat, device=device),
        torch.randint(4, (2,), device=device),
    )


def complex_recurrent(device):
    import complextorch as cT

    model = cT.nn.LSTM(3, 6, batch_first=True).to(device)
    return lambda x: model(x)[0], (torch.randn(2, 7, 3, dtype=torch.cfloat, device=device),)


def power_spectrum(device):
    from complextorch.signal import analytic_signal, pwelch

    return lambda x: (analytic_signal(x).abs(), pwelch(x, window=32)), (torch.randn(2, 128, device=device),)


def room_of(device, moving=False):
    from torchrir import DynamicScene, MicrophoneArray, Room, Source, StaticScene
    from torchrir.signal import FrameSchedule

    room = Room.shoebox(size=[6.0, 4.0, 3.0], fs=8000, beta=[0.9] * 6, device=device)
    sources = Source.from_positions([[1.0, 2.0, 1.5]], device=device)
    mics = MicrophoneArray.from_positions([[2.0, 2.0, 1.5], [2.1, 2.0, 1.5]], device=device)
    if not moving:
        return StaticScene(room=room, sources=sources, mics=mics)
    return DynamicScene(
        room=room,
        sources=sources,
        mics=mics,
        src_traj=torch.tensor([[[1.0, 2.0, 1.5]], [[1.5, 2.0, 1.5]]], device=device),
        mic_traj=mics.positions.unsqueeze(0).expand(2, -1, -1).clone(),
        schedule=FrameSchedule.from_samples([0, 400]),
    )


def room_responses(device):
    from torchrir.config import SimulationConfig
    from torchrir.signal import convolve_rir
    from torchrir.sim import simulate

    scene, config = room_of(device), SimulationConfig(max_order=2, tmax=0.05)
    return lambda sound: convolve_rir(sound, simulate(scene, config).rirs), (torch.randn(1, 800, device=device),)


def room_tail(device):
    """Late echoes are drawn."""
    from torchrir.config import SimulationConfig
    from torchrir.sim import simulate

    scene = room_of(device)
    config = SimulationConfig(max_order=2, tmax=0.1, tdiff=0.05, seed=0)
    return lambda gain: simulate(scene, config).rirs * gain, (torch.ones((), device=device),)


def moving_source(device):
    from torchrir.config import SimulationConfig
    from torchrir.signal import DynamicConvolver
    from torchrir.sim import simulate

    scene, config = room_of(device, moving=True), SimulationConfig(max_order=1, tmax=0.05)
    convolver = DynamicConvolver(time_reference="emission")
    return lambda sound: convolver(sound, simulate(scene, config)), (torch.randn(1, 800, device=device),)


def separation_loss(**options):
    """How well the speakers are told apart."""

    def build(device):
        import ci_sdr

        model = nn.Conv1d(1, 2, 5, padding=2).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(mixture, speakers):
            optimizer.zero_grad()
            loss = ci_sdr.pt.ci_sdr_loss(model(mixture)[0], speakers, filter_length=16, **options).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (torch.randn(1, 1, 400, device=device), torch.randn(2, 400, device=device))

    return build


separation_training = separation_loss()
separation_soft_training = separation_loss(soft_max_SDR=20, compute_permutation=False)


def separation_metric(device):
    import ci_sdr

    def step(speakers, estimates):
        return ci_sdr.pt.ci_sdr(speakers, estimates, filter_length=16)

    return step, (torch.randn(2, 400, device=device), torch.randn(2, 400, device=device))


def series_training(device):
    """The loop of a user."""
    from mtst import MTSTForecaster, get_loss

    model = MTSTForecaster(input_dim=4, output_shape=(6,), embed_dim=16, heads=2, n_layers=1).to(device).train()
    loss_of = get_loss("r2boosted", alpha=1.0, beta=0.8, gamma=0.2, time_dim=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)

    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(8, 12, 4, device=device), torch.randn(8, 6, device=device))


def series_fit(device):
    """An epoch of the library's own loop."""
    from mtst import MTSTForecaster

    model = MTSTForecaster(input_dim=4, output_shape=(6,), embed_dim=16, heads=2, n_layers=1).to(device)

    def step(x, y):
        return model.fit(x, y, epochs=1, batch_size=4, lr=5e-4, loss="mse", device=device, verbose=False)

    return step, (torch.randn(8, 12, 4, device=device), torch.randn(8, 6, device=device))


def series_forecast(device):
    from mtst import MTSTForecaster

    model = MTSTForecaster(input_dim=4, output_shape=(6, 2), embed_dim=16, heads=2, n_layers=1).to(device)
    return lambda x: model.predict(x), (torch.randn(8, 12, 4, device=device),)


def classifier(on):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    ).to(on)


def relevance(config=None):
    """Pixels behind a class."""

    def build(device):
        import autolrp

        model = classifier(device).eval()

        def step(images):
            x = autolrp.tensor(images)
            out = model(x)
            out[0, 1].lrp(config=getattr(autolrp.LRPConfig, config)() if config else None)
            return x.relevance

        return step, (torch.randn(1, 3, 16, 16, device=device),)

    return build


relevance_maps = relevance()
relevance_composite = relevance("composite")


def relevance_attention(device):
    """Tokens behind an output of attention."""
    import autolrp
    from autolrp import ATTNLRP, BASE, LRPConfig

    model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0).to(device)
    head = nn.Linear(16, 3).to(device)

    def step(embeddings):
        x = autolrp.tensor(embeddings)
        out = head(model(x).mean(1))
        out[0, 2].lrp(config=LRPConfig(rule={**BASE, **ATTNLRP}))
        return x.relevance.sum(-1)

    return step, (torch.randn(1, 6, 16, device=device),)


def relevance_contrast(device):
    import autolrp

    model = classifier(device).eval()
    return lambda images: autolrp.clrp(model, images, 2), (torch.randn(1, 3, 16, 16, device=device),)


def relevance_pairs(device):
    """Patches that make two images alike."""
    import autolrp

    model = classifier(device)[:-1].eval()

    def step(a, b):
        return autolrp.bilrp(model, a, b, n_dims=3, reduce_each=lambda r: r.sum(1).flatten(1))

    return step, (torch.randn(1, 3, 8, 8, device=device), torch.randn(1, 3, 8, 8, device=device))
