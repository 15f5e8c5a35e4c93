"""Steps of tad_dftd3, tad_mctc and neurodiffeq: dispersion of molecules, networks that solve equations."""

import torch


def dispersion(grad=False, **options):
    """The dispersion energies of a batch of two molecules, and their forces."""

    def build(device):
        import tad_dftd3 as d3
        import tad_mctc as mctc

        numbers = mctc.batch.pack(
            (
                mctc.convert.symbol_to_number("C C N N H H".split()),
                mctc.convert.symbol_to_number("C O N H".split()),
            )
        ).to(device)
        positions = mctc.batch.pack((3 * torch.randn(6, 3), 3 * torch.randn(4, 3))).to(device)
        param = {name: torch.tensor(value, device=device) for name, value in (("a1", 0.566), ("s8", 0.39), ("a2", 3.1))}

        def step(positions):
            at = positions.detach().requires_grad_(grad)
            energy = d3.dftd3(numbers, at, param, **options)
            if not grad:
                return energy
            (forces,) = torch.autograd.grad(energy.sum(), at)
            return energy.detach(), -forces

        return step, (positions,)

    return build


dispersion_energy = dispersion()
dispersion_forces = dispersion(grad=True)


def cached_dispersion(device):
    """The tables are made once, for the device, as the documentation advises for many energies."""
    import tad_dftd3 as d3
    import tad_mctc as mctc

    numbers = mctc.convert.symbol_to_number("C O N H H H".split()).to(device)
    param = {"a1": torch.tensor(0.5, device=device), "s8": torch.tensor(0.4), "a2": torch.tensor(3.0)}
    param = {name: value.to(device) for name, value in param.items()}
    reference = d3.reference.Reference(device=device)
    rcov = mctc.data.radii.COV_D3(device=device)[numbers]
    rvdw = mctc.data.radii.VDW_PAIRWISE(device=device)[numbers.unsqueeze(-1), numbers.unsqueeze(-2)]
    r4r2 = d3.data.R4R2(device=device)[numbers]

    def step(positions):
        return d3.dftd3(numbers, positions, param, ref=reference, rcov=rcov, rvdw=rvdw, r4r2=r4r2)

    return step, (3 * torch.randn(6, 3, device=device),)


def coordination(device):
    import tad_mctc as mctc

    numbers = mctc.convert.symbol_to_number("C O N H H H".split()).to(device)

    def step(positions):
        return (
            mctc.ncoord.cn_d3(numbers, positions),
            mctc.ncoord.cn_d4(numbers, positions),
            mctc.ncoord.cn_eeq(numbers, positions),
        )

    return step, (3 * torch.randn(6, 3, device=device),)


def equation_epochs(device):
    """One epoch of the solver of an ordinary equation, with validation; the default device is the step's."""
    from neurodiffeq import diff
    from neurodiffeq.conditions import IVP
    from neurodiffeq.networks import FCNN
    from neurodiffeq.solvers import Solver1D

    torch.set_default_device(device)
    solver = Solver1D(
        ode_system=lambda u, t: [diff(u, t, order=2) + u],
        conditions=[IVP(t_0=0.0, u_0=0.0, u_0_prime=1.0)],
        t_min=0.0,
        t_max=3.0,
        nets=[FCNN(n_input_units=1, n_output_units=1, hidden_units=(8,))],
        n_batches_valid=1,
    )

    def step():
        solver.fit(max_epochs=1, tqdm_file=None)
        return solver.metrics_history["train_loss"][-1]

    return step, ()


def residual_training(device):
    """The equation of Laplace on a square: a residual whose boundary the parameterisation keeps."""
    from neurodiffeq import diff
    from neurodiffeq.conditions import DirichletBVP2D
    from neurodiffeq.networks import FCNN

    net = FCNN(n_input_units=2, n_output_units=1, hidden_units=(8,)).to(device)
    condition = DirichletBVP2D(
        x_min=0.0,
        x_min_val=lambda y: torch.sin(torch.pi * y),
        x_max=1.0,
        x_max_val=lambda y: 0 * y,
        y_min=0.0,
        y_min_val=lambda x: 0 * x,
        y_max=1.0,
        y_max_val=lambda x: 0 * x,
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step(x, y):
        x, y = x.requires_grad_(), y.requires_grad_()
        u = condition.enforce(net, x, y)
        loss = (diff(u, x, order=2) + diff(u, y, order=2)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(10, 1, device=device), torch.rand(10, 1, device=device))


def drawn_points(device):
    from neurodiffeq.generators import BatchGenerator, FilterGenerator, Generator1D, Generator2D, ResampleGenerator

    torch.set_default_device(device)
    line = Generator1D(8, 0.0, 1.0, method="equally-spaced-noisy")
    inside = FilterGenerator(Generator2D((4, 4), (0.0, 0.0), (1.0, 1.0)), lambda xy: xy[0] + xy[1] < 1.2)
    resampled, batches = ResampleGenerator(line, size=5), BatchGenerator(line, 4)

    def step():
        return line.get_examples(), inside.get_examples(), resampled.get_examples(), batches.get_examples()

    return step, ()
