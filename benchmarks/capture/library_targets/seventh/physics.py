"""Steps of torchpme, torchani, torcwa, pyqtorch and torchfsm: charges, molecules, gratings, qubits and fluids."""

import torch
from torch import nn


def charged(on):
    """Sodium chloride in a box, with the pairs that are near."""
    positions = torch.tensor(
        [[0.0, 0, 0], [2, 2, 0], [2, 0, 2], [0, 2, 2], [2, 0, 0], [0, 2, 0], [0, 0, 2], [2, 2, 2]], device=on
    )
    charges = torch.tensor([1.0] * 4 + [-1.0] * 4, device=on)[:, None]
    pairs = torch.triu_indices(8, 8, 1, device=on).T.contiguous()
    return charges, torch.eye(3, device=on) * 4.0, positions + 0.05 * torch.randn(8, 3, device=on), pairs


def charged_forces(name, **options):
    def build(device):
        import torchpme

        calculator = getattr(torchpme, name)(torchpme.CoulombPotential(smearing=0.8), **options).to(device)
        charges, cell, positions, pairs = charged(device)

        def step(charges, cell, positions, pairs):
            positions = positions.detach().requires_grad_()
            distances = torch.linalg.norm(positions[pairs[:, 1]] - positions[pairs[:, 0]], dim=-1)
            potential = calculator(
                charges=charges,
                cell=cell,
                positions=positions,
                neighbor_indices=pairs,
                neighbor_distances=distances,
            )
            energy = (charges * potential).sum()
            return energy.detach(), torch.autograd.grad(energy, positions)[0]

        return step, (charges, cell, positions, pairs)

    return build


ewald_forces = charged_forces("EwaldCalculator", lr_wavelength=0.8)
mesh_forces = charged_forces("PMECalculator", mesh_spacing=0.5)
mesh_particle_forces = charged_forces("P3MCalculator", mesh_spacing=0.5, interpolation_nodes=4)


def dispersion_energy(device):
    """An inverse power law, by which the potential of real space is what it is."""
    import torchpme

    potential = torchpme.InversePowerLawPotential(exponent=6, smearing=0.8)
    calculator = torchpme.EwaldCalculator(potential, lr_wavelength=0.8).to(device)
    charges, cell, positions, pairs = charged(device)

    def step(charges, cell, positions, pairs):
        distances = torch.linalg.norm(positions[pairs[:, 1]] - positions[pairs[:, 0]], dim=-1)
        return calculator(charges, cell, positions, pairs, distances)

    return step, (charges, cell, positions, pairs)


def molecular(on):
    from torchani import AEVComputer, ANIModel

    def row(*values):
        return torch.tensor(values, device=on)

    computer = AEVComputer(
        5.2, 3.5, row(16.0), row(0.9, 1.8, 2.7, 3.6), row(8.0), row(32.0), row(0.9, 2.2), row(0.2, 1.4, 2.6), 2
    ).to(on)
    networks = [nn.Sequential(nn.Linear(computer.aev_length, 16), nn.CELU(0.1), nn.Linear(16, 1)) for _ in range(2)]
    return computer, ANIModel(networks).to(on)


def methane(on, size=2):
    species = torch.tensor([[1, 0, 0, 0, 0]] * size, device=on)
    around = [[0.0, 0.0, 0.0], [0.6, 0.6, 0.6], [-0.6, -0.6, 0.6], [-0.6, 0.6, -0.6], [0.6, -0.6, -0.6]]
    return species, torch.tensor([around] * size, device=on) + 0.05 * torch.randn(size, 5, 3, device=on)


def molecule_forces(device):
    """Energies and forces, as in the first example."""
    computer, network = molecular(device)
    model = nn.Sequential(computer, network)

    def step(species, coordinates):
        coordinates = coordinates.detach().requires_grad_()
        energy = model((species, coordinates)).energies
        return energy.detach(), -torch.autograd.grad(energy.sum(), coordinates)[0]

    return step, methane(device)


def molecule_training(device):
    from torchani import EnergyShifter

    computer, network = molecular(device)
    shifter = EnergyShifter([-0.5, -38.0]).to(device)
    model = nn.Sequential(computer, network, shifter)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)

    def step(species, coordinates, true):
        num_atoms = (species >= 0).sum(dim=1, dtype=true.dtype)
        _, predicted = model((species, coordinates))
        loss = (nn.functional.mse_loss(predicted, true, reduction="none") / num_atoms.sqrt()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (*methane(device, 3), torch.randn(3, device=device))


def molecule_periodic(device):
    computer, _ = molecular(device)
    cell, pbc = torch.eye(3, device=device) * 12.0, torch.ones(3, dtype=torch.bool, device=device)

    def step(species, coordinates):
        return computer((species, coordinates), cell=cell, pbc=pbc).aevs

    return step, methane(device, 1)


def molecule_hessian(device):
    from torchani.utils import hessian

    computer, network = molecular(device)

    def step(species, coordinates):
        coordinates = coordinates.detach().requires_grad_()
        energy = network(computer((species, coordinates))).energies
        return hessian(coordinates, energies=energy)

    return step, methane(device, 1)


def molecule_padding(device):
    """A batch of molecules of different sizes."""
    from torchani.utils import pad_atomic_properties

    computer, network = molecular(device)

    def step(species, coordinates):
        small = {"species": species[:, :3], "coordinates": coordinates[:, :3]}
        batch = pad_atomic_properties([{"species": species, "coordinates": coordinates}, small])
        return network(computer((batch["species"], batch["coordinates"]))).energies

    return step, methane(device)


def grated(on, thickness, permittivity, **options):
    """A grating of silicon on glass."""
    import torcwa

    simulation = torcwa.rcwa(freq=1 / 532.0, order=[2, 2], L=[300.0, 300.0], device=on, **options)
    simulation.add_input_layer(eps=1.46**2)
    simulation.set_incident_angle(inc_ang=0.0, azi_ang=0.0)
    simulation.add_layer(thickness=thickness, eps=permittivity)
    simulation.solve_global_smatrix()
    return simulation


def grating_pattern(on):
    from torcwa import geometry

    pattern = geometry(Lx=300.0, Ly=300.0, nx=24, ny=24, edge_sharpness=1000.0, device=on)
    return pattern.rectangle(Wx=180.0, Wy=100.0, Cx=150.0, Cy=150.0)


def grating_transmission(device):
    def step(pattern):
        simulation = grated(device, 300.0, pattern * 16.0 + (1 - pattern))
        return [
            simulation.S_parameters(orders=[0, 0], direction="forward", port="transmission", polarization=kind)
            for kind in ("xx", "yy")
        ]

    return step, (grating_pattern(device),)


def grating_field(device):
    axes = [torch.linspace(0, 300, 6, device=device) for _ in range(2)]
    heights = torch.linspace(-100, 500, 5, device=device)

    def step(pattern):
        simulation = grated(device, 300.0, pattern * 16.0 + (1 - pattern))
        simulation.source_planewave(amplitude=[1.0, 0.0], direction="forward")
        return simulation.field_xz(axes[0], heights, 150.0), simulation.field_xy(0, *axes, z_prop=100.0)

    return step, (grating_pattern(device),)


def grating_optimisation(device):
    """The gradient of what goes through by the shape, as in the examples of topology optimisation."""
    rho = nn.Parameter(torch.rand(24, 24, device=device))
    optimizer = torch.optim.Adam([rho], lr=0.02)

    def step(thickness):
        optimizer.zero_grad()
        blurred = torch.sigmoid(8.0 * (rho - 0.5))
        simulation = grated(device, thickness, blurred * 6.0 + 1.0)
        t0xx = simulation.S_parameters(orders=[0, 0], direction="forward", port="transmission", polarization="xx")
        loss = -torch.abs(t0xx).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.tensor(300.0, device=device),)


def grating_shapes(device):
    from torcwa import geometry

    pattern = geometry(Lx=300.0, Ly=300.0, nx=24, ny=24, edge_sharpness=1000.0, device=device)

    def step(radius):
        ring = pattern.difference(pattern.circle(radius, 150.0, 150.0), pattern.circle(radius / 2, 150.0, 150.0))
        return pattern.union(ring, pattern.ellipse(40.0, 20.0, 80.0, 80.0, theta=0.3))

    return step, (torch.tensor(100.0, device=device),)


def circuited(on, noise=None):
    import pyqtorch as pyq

    features = [pyq.RX(i, "x") for i in range(3)]
    layers = [pyq.RY(i, f"theta_{i}", **({"noise": noise} if noise else {})) for i in range(3)]
    entangled = [pyq.CNOT(i, (i + 1) % 3) for i in range(3)]
    return pyq.QuantumCircuit(3, [*features, *layers, *entangled]).to(on)


def angles(on):
    return {f"theta_{i}": torch.rand(1, device=on, dtype=torch.float64, requires_grad=True) for i in range(3)}


def qubits_training(name):
    """A function fitted by the expectation of an observable."""

    def build(device):
        from pyqtorch import Add, DiffMode, Observable, Z, expectation, zero_state

        circuit, thetas = circuited(device), angles(device)
        state, observable = zero_state(3).to(device), Observable(Add([Z(i) for i in range(3)])).to(device)
        optimizer = torch.optim.Adam(thetas.values(), lr=0.01)

        def step(x, y):
            optimizer.zero_grad()
            found = expectation(circuit, state, {"x": x, **thetas}, observable, diff_mode=DiffMode(name))
            loss = nn.functional.mse_loss(found, y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        x = torch.rand(4, device=device, dtype=torch.float64)
        return step, (x, torch.sin(x))

    return build


qubits_fit_training = qubits_training("ad")
qubits_adjoint_training = qubits_training("adjoint")
qubits_shift_training = qubits_training("gpsr")


def qubits_samples(device):
    from pyqtorch import sample, zero_state

    circuit, thetas = circuited(device), angles(device)
    state = zero_state(3).to(device)

    def step(x):
        with torch.no_grad():
            return sample(circuit, state, {"x": x, **thetas}, n_shots=50)

    return step, (torch.rand(1, device=device, dtype=torch.float64),)


def qubits_noisy(device):
    from pyqtorch import Observable, Z, expectation, zero_state
    from pyqtorch.noise import DigitalNoiseProtocol, DigitalNoiseType

    noise = DigitalNoiseProtocol(DigitalNoiseType.DEPOLARIZING, error_probability=0.1)
    circuit, thetas = circuited(device, noise), angles(device)
    state, observable = zero_state(3).to(device), Observable(Z(0)).to(device)

    def step(x):
        with torch.no_grad():
            return expectation(circuit, state, {"x": x, **thetas}, observable)

    return step, (torch.rand(1, device=device, dtype=torch.float64),)


def qubits_evolution(device):
    from pyqtorch import Add, HamiltonianEvolution, X, Z, zero_state

    evolution = HamiltonianEvolution(Add([X(0), Z(1)]), "t").to(device)
    state = zero_state(2).to(device)
    return lambda t: evolution(state, values={"t": t}), (torch.rand(3, device=device, dtype=torch.float64),)


def flowing(name, dimensions=2, channels=1, points=16, dt=0.01, **options):
    def build(device):
        from torchfsm import pde
        from torchfsm.field import diffused_noise
        from torchfsm.mesh import MeshGrid

        mesh = MeshGrid([(0, 6.28, points)] * dimensions, device=device)
        start = diffused_noise(mesh, device=device, n_channel=channels)
        equation = getattr(pde, name)(**options)
        return lambda u: equation.integrate(u_0=u, dt=dt, step=5, mesh=mesh), (start,)

    return build


flow_burgers = flowing("Burgers", 1, 1, 32, nu=0.05)
flow_vorticity = flowing("NavierStokesVorticity", Re=100.0)
flow_velocity = flowing("NavierStokes", channels=2, Re=100.0)
flow_chaos = flowing("KuramotoSivashinsky", 1, 1, 32)


def flow_trajectory(device):
    """What the equation did on the way, kept at each second step."""
    from torchfsm.field import diffused_noise
    from torchfsm.mesh import MeshGrid
    from torchfsm.pde import KortewegDeVries
    from torchfsm.traj_recorder import AutoRecorder, IntervalController

    mesh = MeshGrid([(0, 6.28, 32)], device=device)
    equation = KortewegDeVries()

    def step(u):
        recorder = AutoRecorder(control_func=IntervalController(interval=2))
        return equation.integrate(u_0=u, dt=0.001, step=6, mesh=mesh, trajectory_recorder=recorder)

    return step, (diffused_noise(mesh, device=device),)


def flow_operators(device):
    from torchfsm.field import diffused_noise
    from torchfsm.mesh import MeshGrid
    from torchfsm.operator import Biharmonic, Div, Laplacian, run_operators

    mesh = MeshGrid([(0, 6.28, 16)] * 2, device=device)

    def step(u):
        return list(run_operators(u, [Laplacian(), Biharmonic(), Div()], mesh)), Laplacian().solve(
            b=u, mesh=mesh, n_channel=2
        )

    return step, (diffused_noise(mesh, device=device, n_channel=2),)
