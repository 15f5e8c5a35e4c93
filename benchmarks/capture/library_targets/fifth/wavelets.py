"""Steps of ptwt and torchkbnufft: wavelets in one to three dimensions, and Fourier transforms off the grid."""

import torch


def decomposed(forward, back, shape, wavelet="db2", **options):
    """A transform and its inverse, trained on thresholded coefficients."""

    def build(device):
        import ptwt

        def step(x):
            x = x.detach().requires_grad_()
            coefficients = getattr(ptwt, forward)(x, wavelet, **options)
            again = getattr(ptwt, back)(coefficients, wavelet)
            again.square().mean().backward()
            return again.detach(), x.grad

        return step, (torch.rand(shape, device=device),)

    return build


lines_wavelets = decomposed("wavedec", "waverec", (2, 64), level=3, mode="zero")
pictures_wavelets = decomposed("wavedec2", "waverec2", (2, 32, 32), level=2, mode="symmetric")
volumes_wavelets = decomposed("wavedec3", "waverec3", (2, 16, 16, 16), wavelet="haar", level=1, mode="periodic")
separable_wavelets = decomposed("fswavedec2", "fswaverec2", (2, 32, 32), level=2)
stationary_wavelets = decomposed("swt", "iswt", (2, 32), wavelet="haar", level=2)


def transformed_off_grid(mode, **options):
    def build(device):
        import torchkbnufft as tk

        forward = tk.KbNufft(im_size=(12, 12), **options).to(device)
        adjoint = tk.KbNufftAdjoint(im_size=(12, 12), **options).to(device)
        omega = (torch.rand(2, 40) * 6 - 3).to(device)
        smaps = torch.randn(1, 2, 12, 12, dtype=torch.complex64, device=device) if mode == "coils" else None
        mats = tk.calc_tensor_spmatrix(omega, im_size=(12, 12)) if mode == "sparse" else None

        def step(image):
            image = image.detach().requires_grad_()
            kdata = forward(image, omega, interp_mats=mats, smaps=smaps, norm="ortho" if mode == "coils" else None)
            back = adjoint(kdata, omega, interp_mats=mats, smaps=smaps, norm="ortho" if mode == "coils" else None)
            back.abs().square().mean().backward()
            return back.detach()

        return step, (torch.randn(1, 1, 12, 12, dtype=torch.complex64, device=device),)

    return build


table_transform = transformed_off_grid("table")
coils_transform = transformed_off_grid("coils", numpoints=4)
sparse_transform = transformed_off_grid("sparse")


def batched_trajectories(device):
    """A trajectory for each picture."""
    import torchkbnufft as tk

    forward, interp = (
        tk.KbNufft(im_size=(12, 12)).to(device),
        tk.KbInterp(im_size=(12, 12), grid_size=(16, 16)).to(device),
    )

    def step(image, omega, grid):
        return forward(image, omega), interp(grid, omega)

    return step, (
        torch.randn(2, 1, 12, 12, dtype=torch.complex64, device=device),
        (torch.rand(2, 2, 40) * 6 - 3).to(device),
        torch.randn(2, 1, 16, 16, dtype=torch.complex64, device=device),
    )


def toeplitz_transform(device):
    import torchkbnufft as tk

    toeplitz = tk.ToepNufft().to(device)

    def step(image, omega):
        kernel = tk.calc_toeplitz_kernel(omega, im_size=(12, 12))
        return toeplitz(image, kernel)

    return step, (
        torch.randn(1, 1, 12, 12, dtype=torch.complex64, device=device),
        (torch.rand(2, 40) * 6 - 3).to(device),
    )


def compensated_density(device):
    import torchkbnufft as tk

    def step(omega, matrices_of):
        return tk.calc_density_compensation_function(
            omega, im_size=(12, 12), num_iterations=3
        ), tk.calc_tensor_spmatrix(matrices_of, im_size=(12, 12))

    return step, ((torch.rand(2, 40) * 6 - 3).to(device), (torch.rand(2, 20) * 6 - 3).to(device))
