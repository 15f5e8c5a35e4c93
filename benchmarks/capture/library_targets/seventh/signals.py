"""Steps of torch_kf, pytorch_tcn, snac and torch_cubic_spline_grids: filters, sequences, codecs and splines."""

import torch
from torch import nn


def tracker(device, **options):
    from torch_kf import GaussianState, KalmanFilter

    process = torch.tensor([[1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=torch.float32)
    seen = torch.tensor([[1, 0, 0, 0], [0, 1, 0, 0]], dtype=torch.float32)
    kalman = KalmanFilter(process, seen, torch.eye(4) * 1.5**2, torch.eye(2) * 3.0**2, **options).to(device)
    state = GaussianState(torch.zeros(6, 4, 1), torch.eye(4)[None].expand(6, 4, 4) * 150.0**2).to(device)
    return kalman, state


def kalman_smoothing(device):
    kalman, state = tracker(device)

    def step(measures):
        states = kalman.filter(state, measures, update_first=True, return_all=True)
        return kalman.rts_smooth(states).mean

    return step, (torch.randn(10, 6, 2, 1, device=device),)


def kalman_online(device):
    """One measurement, and how likely it was."""
    kalman, state = tracker(device, joseph_update=True)

    def step(measure):
        predicted = kalman.predict(state)
        projected = kalman.project(predicted)
        updated = kalman.update(predicted, measure)
        return updated.mean, projected.log_likelihood(measure), projected.mahalanobis(measure)

    return step, (torch.randn(6, 2, 1, device=device),)


def kalman_missing(device):
    """Measurements that are missing at times are not a number."""
    kalman, state = tracker(device)
    measures = torch.randn(10, 6, 2, 1, device=device)
    measures[3, 2] = float("nan")
    return lambda measures: kalman.filter(state, measures, return_all=True).mean, (measures,)


def kalman_constant_acceleration(device):
    from torch_kf import GaussianState
    from torch_kf.ckf import constant_kalman_filter

    kalman = constant_kalman_filter(measurement_std=3.0, process_std=1.5, dim=2, order=2).to(device)
    size = kalman.state_dim
    state = GaussianState(torch.zeros(5, size, 1), torch.eye(size)[None].expand(5, size, size) * 100.0).to(device)

    def step(measures):
        now = state
        for measure in measures:
            now = kalman.predict(now)
            now = kalman.update(now, measure)
        return now.mean, now.covariance

    return step, (torch.randn(4, 5, 2, 1, device=device),)


def kalman_steady(device):
    kalman, _ = tracker(device)
    return lambda n: kalman.steady_state_covariance(20) * n, (torch.ones((), device=device),)


def convolved(**options):
    """Next value of series."""

    def build(device):
        from pytorch_tcn import TCN

        model = TCN(3, [8, 8, 8], kernel_size=3, output_projection=1, **options).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(series, following):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(series), following)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (torch.randn(4, 3, 20, device=device), torch.randn(4, 1, 20, device=device))

    return build


temporal_training = convolved()
temporal_skip_training = convolved(use_skip_connections=True, use_norm="layer_norm", causal=False, use_gate=True)


def temporal_conditioned(device):
    """Embeddings of what conditions the series."""
    from pytorch_tcn import TCN

    model = TCN(3, [8, 8], embedding_shapes=[(5,)], embedding_mode="concat", input_shape="NLC").to(device).eval()

    def step(series, condition):
        with torch.no_grad():
            return model(series, embeddings=[condition])

    return step, (torch.randn(4, 20, 3, device=device), torch.randn(4, 5, device=device))


def temporal_streaming(device):
    """Blocks of a stream, with the history in buffers."""
    from pytorch_tcn import TCN

    model = TCN(3, [8, 8], kernel_size=3, causal=True).to(device).eval()

    def step(blocks):
        with torch.no_grad():
            model.reset_buffers()
            return torch.cat([model(block, inference=True) for block in blocks.split(5, -1)], -1)

    return step, (torch.randn(1, 3, 20, device=device),)


def codec(on):
    from snac import SNAC

    return SNAC(
        sampling_rate=8000,
        encoder_dim=16,
        encoder_rates=[2, 4],
        decoder_dim=64,
        decoder_rates=[4, 2],
        attn_window_size=4,
        codebook_size=32,
        codebook_dim=4,
        vq_strides=[4, 2, 1],
    ).to(on)


def codec_reconstruction(device):
    model = codec(device).eval()

    def step(audio):
        with torch.inference_mode():
            audio_hat, codes = model(audio)
        return audio_hat, codes

    return step, (torch.randn(1, 1, 700, device=device),)


def codec_round_trip(device):
    model = codec(device).eval()

    def step(audio):
        with torch.inference_mode():
            return model.decode(model.encode(audio))

    return step, (torch.randn(2, 1, 512, device=device),)


def codec_decoding(device):
    """Tokens that a language model gave."""
    model = codec(device).eval()

    def step(*codes):
        with torch.inference_mode():
            return model.decode(list(codes))

    return step, tuple(torch.randint(32, (1, n), device=device) for n in (4, 8, 16))


def codec_training(device):
    model = codec(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(audio):
        optimizer.zero_grad()
        audio_hat, _ = model(audio)
        loss = nn.functional.l1_loss(audio_hat, audio)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(2, 1, 512, device=device),)


def spline_values(kind, resolution, **options):
    def build(device):
        import torch_cubic_spline_grids

        grid = getattr(torch_cubic_spline_grids, kind)(resolution=resolution, n_channels=2, **options).to(device)
        return grid, (torch.rand(10, len(resolution), device=device),)

    return build


spline_surface = spline_values("CubicBSplineGrid2d", (5, 3))
spline_volume = spline_values("CubicCatmullRomGrid3d", (4, 5, 3))
spline_deformation = spline_values("CubicBSplineGrid4d", (3, 4, 4, 4))


def spline_training(device):
    """The example: a curve through noisy observations of a sine."""
    from torch_cubic_spline_grids import CubicBSplineGrid1d

    grid = CubicBSplineGrid1d(resolution=6, n_channels=1).to(device)
    optimizer = torch.optim.Adam(grid.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = torch.mean((grid(x).squeeze() - y) ** 2)
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = torch.rand(20, device=device)
    return step, (x, torch.sin(6.28 * x))


def spline_from_data(device):
    from torch_cubic_spline_grids import CubicCatmullRomGrid2d

    def step(data, points):
        return CubicCatmullRomGrid2d.from_grid_data(data)(points)

    return step, (torch.randn(1, 5, 6, device=device), torch.rand(8, 2, device=device))
