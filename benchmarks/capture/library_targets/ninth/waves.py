"""Steps of dasp_pytorch, torch_ctf, torch_fourier_slice, torch_dxdt, torchstain and torch_cfd."""

import torch
from torch import nn


def distortion_fit(device):
    import dasp_pytorch

    drive = nn.Parameter(torch.tensor([1.0, 1.0], device=device))
    optimizer = torch.optim.Adam([drive], lr=1e-2)

    def step(x, y):
        optimizer.zero_grad()
        loss = (dasp_pytorch.functional.distortion(x, 8000, drive) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = torch.randn(2, 1, 1000, device=device)
    return step, (x, torch.tanh(4 * x))


def equalizer(device):
    """A network predicts the parameters of an equalizer."""
    import dasp_pytorch

    effect = dasp_pytorch.ParametricEQ(sample_rate=24000)
    net = nn.Sequential(nn.Linear(1000, 16), nn.ReLU(), nn.Linear(16, effect.num_params), nn.Sigmoid()).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = (effect.process_normalized(x, net(x.squeeze(1))) - y).abs().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(2, 1, 1000, device=device), torch.randn(2, 1, 1000, device=device))


def compression(device):
    import dasp_pytorch

    effect = dasp_pytorch.Compressor(sample_rate=24000)

    def step(x, parameters):
        return effect.process_normalized(x, parameters)

    return step, (torch.randn(2, 1, 1000, device=device), torch.rand(2, effect.num_params, device=device))


def reverberation(device):
    import dasp_pytorch

    effect = dasp_pytorch.NoiseShapedReverb(sample_rate=44100)

    def step(x, parameters):
        return effect.process_normalized(x, parameters)

    return step, (torch.randn(2, 2, 2000, device=device), torch.rand(2, effect.num_params, device=device))


def mixing(device):
    from dasp_pytorch.functional import gain, stereo_bus, stereo_panner, stereo_widener

    def step(tracks, level, pans, sends, width):
        stereo = stereo_panner(gain(tracks, 44100, level), 44100, pans)
        return stereo_widener(stereo_bus(stereo, 44100, sends), 44100, width[:, None])

    return step, (
        torch.randn(2, 4, 500, device=device),
        torch.randn(2, device=device),
        torch.rand(2, 4, device=device),
        torch.randn(2, 4, 1, device=device),
        torch.rand(2, device=device),
    )


def transfer(device):
    """The contrast transfer function of a microscope, for several defocus values."""
    from torch_ctf import calculate_ctf_2d

    def step(defocus, astigmatism):
        return calculate_ctf_2d(
            defocus=defocus, astigmatism=astigmatism, astigmatism_angle=45.0, voltage=300.0, spherical_aberration=2.7,
            amplitude_contrast=0.1, phase_shift=0.0, pixel_size=1.2, image_shape=(32, 32), rfft=True, fftshift=False,
        )  # fmt: skip

    return step, (torch.linspace(0.8, 1.6, 4, device=device), torch.full((4,), 0.02, device=device))


def transfer_line_fit(device):
    from torch_ctf import calculate_ctf_1d

    defocus = nn.Parameter(torch.tensor(1.0, device=device))
    optimizer = torch.optim.Adam([defocus], lr=1e-2)

    def step(target):
        optimizer.zero_grad()
        ctf = calculate_ctf_1d(
            defocus=defocus, voltage=300.0, spherical_aberration=2.7, amplitude_contrast=0.1, phase_shift=0.0,
            pixel_size=1.2, n_samples=64, oversampling_factor=3,
        )  # fmt: skip
        loss = (ctf**2 - target).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(64, device=device),)


def transfer_tilted(device):
    """Beam tilt and the two functions of an Ewald sphere."""
    from torch_ctf import calculate_ctfp_and_ctfq_2d

    def step(defocus, tilt):
        return calculate_ctfp_and_ctfq_2d(
            defocus=defocus, astigmatism=0.01, astigmatism_angle=30.0, voltage=300.0, spherical_aberration=2.7,
            amplitude_contrast=0.1, phase_shift=0.0, pixel_size=1.2, image_shape=(32, 32), beam_tilt_mrad=tilt,
        )  # fmt: skip

    return step, (torch.tensor(1.2, device=device), torch.randn(2, device=device))


def transfer_laser(device):
    from torch_ctf import calc_LPP_ctf_2D

    def step(defocus):
        return calc_LPP_ctf_2D(
            defocus=defocus, astigmatism=0.0, astigmatism_angle=0.0, voltage=300.0, spherical_aberration=2.7,
            amplitude_contrast=0.1, pixel_size=1.2, image_shape=(32, 32), rfft=True, fftshift=False, NA=0.05,
            laser_wavelength_angstrom=10640.0, focal_length_angstrom=20e7, laser_xy_angle_deg=0.0,
            laser_xz_angle_deg=0.0, laser_long_offset_angstrom=0.0, laser_trans_offset_angstrom=0.0,
            laser_polarization_angle_deg=0.0, peak_phase_deg=90.0,
        )  # fmt: skip

    return step, (torch.tensor(1.0, device=device),)


def _rotations(device, count):
    return torch.linalg.qr(torch.randn(count, 3, 3, device=device))[0]


def projections(device):
    from torch_fourier_slice import project_3d_to_2d

    def step(volume, rotations):
        return project_3d_to_2d(volume, rotations)

    return step, (torch.rand(16, 16, 16, device=device), _rotations(device, 4))


def reconstruction(device):
    from torch_fourier_slice import backproject_2d_to_3d

    def step(images, rotations):
        return backproject_2d_to_3d(images, rotations)

    return step, (torch.rand(4, 16, 16, device=device), _rotations(device, 4))


def projection_fit(device):
    """A volume that is fitted to images."""
    from torch_fourier_slice import project_3d_to_2d

    volume = nn.Parameter(torch.zeros(16, 16, 16, device=device))
    optimizer = torch.optim.Adam([volume], lr=1e-2)

    def step(images, rotations):
        optimizer.zero_grad()
        loss = (project_3d_to_2d(volume, rotations, pad_factor=1.0) - images).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(4, 16, 16, device=device), _rotations(device, 4))


def slices(device):
    from torch_fourier_slice import extract_central_slices_rfft_3d

    def step(volume, rotations):
        dft = torch.fft.fftshift(torch.fft.rfftn(volume), dim=(-3, -2))
        return extract_central_slices_rfft_3d(dft, rotations, fftfreq_max=0.4)

    return step, (torch.rand(16, 16, 16, device=device), _rotations(device, 4))


def projections_channels(device):
    from torch_fourier_slice import project_2d_to_1d, project_3d_to_2d_multichannel

    def step(volume, rotations, image, turns):
        return project_3d_to_2d_multichannel(volume, rotations), project_2d_to_1d(image, turns)

    turns = torch.linalg.qr(torch.randn(3, 2, 2, device=device))[0]
    return step, (
        torch.rand(2, 16, 16, 16, device=device),
        _rotations(device, 3),
        torch.rand(16, 16, device=device),
        turns,
    )


def _samples(device, count=60):
    t = torch.linspace(0, 6.28, count, device=device)
    return torch.sin(t).repeat(3, 1) + 0.1 * torch.randn(3, count, device=device), t


def derivative_local(device):
    import torch_dxdt

    def step(x, t):
        first = torch_dxdt.dxdt(x, t, kind="savitzky_golay", window_length=11, polyorder=3)
        return first, torch_dxdt.dxdt(x, t, kind="finite_difference", k=2), torch_dxdt.dxdt(x, t, kind="spectral")

    return step, _samples(device)


def derivative_spline(device):
    import torch_dxdt

    method = torch_dxdt.Spline(s=0.1)

    def step(x, t):
        return method.d(x, t), method.smooth(x, t)

    return step, _samples(device)


def derivative_kernel(device):
    import torch_dxdt

    def step(x, t):
        return torch_dxdt.dxdt(x, t, kind="kernel", sigma=1.0, lmbd=0.1), torch_dxdt.smooth_x(x, t, kind="whittaker")

    return step, _samples(device)


def derivative_kalman(device):
    import torch_dxdt

    method = torch_dxdt.Kalman(alpha=1.0)

    def step(x, t):
        return method.d(x, t)

    return step, _samples(device)


def derivative_training(device):
    """A network whose output has a smoothed derivative."""
    import torch_dxdt

    net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step(target, t):
        optimizer.zero_grad()
        loss = (torch_dxdt.dxdt(net(t[:, None]).squeeze(1), t, kind="whittaker", lmbda=10.0) - target).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    t = torch.linspace(0, 6.28, 60, device=device)
    return step, (torch.cos(t), t)


def _slide(device, size=16):
    return (torch.rand(3, size, size, device=device) * 180 + 20).round()


def stain_macenko(device):
    import torchstain

    normalizer = torchstain.normalizers.MacenkoNormalizer(backend="torch")
    normalizer.fit(_slide(device))

    def step(image):
        return normalizer.normalize(I=image, stains=True)

    return step, (_slide(device),)


def stain_reinhard(device):
    import torchstain

    normalizer = torchstain.normalizers.ReinhardNormalizer(backend="torch", method="modified")
    normalizer.fit(_slide(device))

    def step(image):
        return normalizer.normalize(I=image)

    return step, (_slide(device),)


def stain_targets(device):
    import torchstain

    normalizer = torchstain.normalizers.MultiMacenkoNormalizer(backend="torch", norm_mode="avg-post")
    normalizer.fit([_slide(device), _slide(device)])

    def step(image):
        return normalizer.normalize(I=image, stains=True)

    return step, (_slide(device),)


def _grid(device, size=16):
    from torch_cfd.grids import Grid

    return Grid((size, size), domain=((0, 6.283), (0, 6.283)), device=device)


def vorticity(device):
    """Turbulence that is driven by a Kolmogorov flow."""
    from torch_cfd.forcings import KolmogorovForcing
    from torch_cfd.spectral import NavierStokes2DSpectral, RK4CrankNicolsonStepper

    grid = _grid(device)
    equation = NavierStokes2DSpectral(
        viscosity=1e-3, grid=grid, drag=0.1, smooth=True,
        forcing_fn=KolmogorovForcing(grid=grid, scale=1, wave_number=4, vorticity=True, device=device),
        step_fn=RK4CrankNicolsonStepper(),
    ).to(device)  # fmt: skip

    def step(w):
        with torch.no_grad():
            return equation.forward(w, dt=1e-3, steps=2)

    return step, (torch.fft.rfft2(torch.randn(2, 16, 16, device=device)),)


def vorticity_imex(device):
    from torch_cfd.spectral import IMEXStepper, NavierStokes2DSpectral

    equation = NavierStokes2DSpectral(viscosity=1e-3, grid=_grid(device), smooth=True, step_fn=IMEXStepper(order=2)).to(
        device
    )

    def step(w):
        with torch.no_grad():
            return equation.forward(w, dt=1e-3)

    return step, (torch.fft.rfft2(torch.randn(2, 16, 16, device=device)),)


def first_vorticity(device):
    from torch_cfd.initial_conditions import vorticity_field

    grid = _grid(device)

    def step(x):
        field = vorticity_field(lambda a, b: torch.sin(a) * torch.cos(b), grid, batch_size=2, noise=0.1, device=device)
        return field.data + x

    return step, (torch.zeros(16, 16, device=device),)


def velocity(device):
    """Finite volumes, with a projection of the pressure."""
    from torch_cfd import boundaries
    from torch_cfd.fvm import NavierStokes2DFVMProjection, PressureProjection, RKStepper
    from torch_cfd.initial_conditions import filtered_velocity_field

    grid = _grid(device)
    bc = boundaries.periodic_boundary_conditions(2)
    start = filtered_velocity_field(grid, maximum_velocity=1.0, peak_wavenumber=3, random_state=0, device=device)
    equation = NavierStokes2DFVMProjection(
        viscosity=1e-2, grid=grid, bcs=(bc, bc), density=1.0, pressure_proj=PressureProjection(grid=grid, bc=bc),
        step_fn=RKStepper.from_method(method="classic_rk4", requires_grad=False),
    ).to(device)  # fmt: skip
    from torch_cfd.grids import GridVariable, GridVariableVector

    def step(u, v):
        field = GridVariableVector(
            tuple(GridVariable(d, s.offset, grid, s.bc) for d, s in zip((u, v), start, strict=True))
        )
        with torch.no_grad():
            out, _pressure = equation(field, dt=1e-3)
            return out[0].data, out[1].data

    return step, tuple(s.data for s in start)


def poisson(device):
    from torch_cfd import boundaries
    from torch_cfd.solvers import ConjugateGradient, PseudoInverse

    grid = _grid(device)
    direct = PseudoInverse(grid, boundaries.periodic_boundary_conditions(2)).to(device)
    iterative = ConjugateGradient(
        grid, boundaries.dirichlet_boundary_conditions(2), dtype=torch.float32, tol=1e-4, max_iter=20
    ).to(device)

    def step(f):
        with torch.no_grad():
            return direct.solve(f, torch.zeros_like(f)), iterative.solve(f, torch.zeros_like(f))

    return step, (torch.randn(2, 16, 16, device=device),)


def poisson_multigrid(device):
    from torch_cfd import boundaries
    from torch_cfd.solvers import MultigridSolver

    solver = MultigridSolver(
        _grid(device), boundaries.dirichlet_boundary_conditions(2), dtype=torch.float32, levels=2, max_iter=4
    ).to(device)

    def step(f):
        with torch.no_grad():
            return solver(f, torch.zeros_like(f))

    return step, (torch.randn(2, 16, 16, device=device),)
