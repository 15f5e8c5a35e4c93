"""Steps of pypose and pytorch_kinematics: poses that are optimised, filters, control, arms."""

import torch
from torch import nn


def inverted_poses(device):
    """Poses that undo others, by Levenberg and Marquardt."""
    import pypose as pp

    class PoseInverse(nn.Module):
        def __init__(self):
            super().__init__()
            self.pose = nn.Parameter(pp.randn_se3(2, 2).tensor())

        def forward(self, inputs):
            return (pp.se3(self.pose).Exp() @ inputs).Log().tensor()

    model = PoseInverse().to(device)
    strategy = pp.optim.strategy.Adaptive(damping=1e-6)
    optimizer = pp.optim.LM(model, strategy=strategy)

    def step(inputs):
        return optimizer.step(inputs)

    return step, (pp.randn_SE3(2, 2, device=device),)


def robust_poses(device):
    """Optimises poses by Gauss-Newton steps with a robust kernel. A scheduler stops on a plateau."""
    import pypose as pp

    class PoseInverse(nn.Module):
        def __init__(self):
            super().__init__()
            self.pose = nn.Parameter(pp.randn_se3(2).tensor())

        def forward(self, inputs):
            return (pp.se3(self.pose).Exp() @ inputs).Log().tensor()

    model = PoseInverse().to(device)
    kernel = pp.optim.kernel.Cauchy()
    optimizer = pp.optim.GN(
        model, solver=pp.optim.solver.PINV(), kernel=kernel, corrector=pp.optim.corrector.FastTriggs(kernel)
    )

    def step(inputs):
        scheduler = pp.optim.scheduler.StopOnPlateau(optimizer, steps=3, patience=2, decreasing=1e-3)
        while scheduler.continual():
            loss = optimizer.step(inputs)
            scheduler.step(loss)
        return loss

    return step, (pp.randn_SE3(2, device=device),)


def trusted_poses(device):
    import pypose as pp

    class PoseInverse(nn.Module):
        def __init__(self):
            super().__init__()
            self.pose = nn.Parameter(pp.randn_so3(3).tensor())

        def forward(self, inputs):
            return (pp.so3(self.pose).Exp() @ inputs).Log().tensor()

    model = PoseInverse().to(device)
    strategy = pp.optim.strategy.TrustRegion(radius=1e3)
    optimizer = pp.optim.LM(model, solver=pp.optim.solver.Cholesky(), strategy=strategy, kernel=pp.optim.kernel.Huber())

    def step(inputs):
        return optimizer.step(inputs)

    return step, (pp.randn_SO3(3, device=device),)


def preintegrated(device):
    """Inertial measurements, integrated."""
    import pypose as pp

    integrator = pp.module.IMUPreintegrator(torch.zeros(3), pp.identity_SO3(), torch.zeros(3), reset=False).to(device)

    begin = {
        "pos": torch.zeros(1, 1, 3, device=device),
        "rot": pp.identity_SO3(1, 1, device=device),
        "vel": torch.zeros(1, 1, 3, device=device),
    }

    def step(dt, gyro, acc, rot):
        out = integrator(dt=dt, gyro=gyro, acc=acc, rot=rot, init_state=begin)
        return out["pos"], out["cov"]

    args = (
        torch.full((1, 10, 1), 0.01),
        torch.randn(1, 10, 3) * 0.1,
        torch.randn(1, 10, 3),
    )
    return step, (*[a.to(device) for a in args], pp.randn_SO3(1, 10, device=device))


def drifting(where):
    import pypose as pp

    class Model(pp.module.NLS):
        def state_transition(self, state, input, t=None):
            return torch.cos(state) + input

        def observation(self, state, input, t):
            return torch.sin(state) + input

    return Model().to(where)


def filtered(name):
    """A step of a filter."""

    def build(device):
        import pypose as pp

        model = drifting(device)
        filter = getattr(pp.module, name)(
            model, Q=torch.eye(2, device=device) * 0.1, R=torch.eye(2, device=device) * 0.1
        )

        def step(x, y, u, P):
            return filter(x, y, u, P)

        state = torch.randn(2, device=device)
        return step, (state, torch.randn(2, device=device), torch.zeros(2, device=device), torch.eye(2, device=device))

    return build


kalman_step = filtered("EKF")
unscented_step = filtered("UKF")
particle_step = filtered("PF")


def regulated(device):
    """A linear-quadratic regulator."""
    import pypose as pp

    batch, T, n, m = 2, 5, 3, 2
    Q = torch.eye(n + m, device=device).repeat(batch, T, 1, 1)
    p = torch.randn(batch, T, n + m, device=device)
    A = torch.eye(n, device=device) + 0.1 * torch.randn(batch, n, n, device=device)
    B = torch.randn(batch, n, m, device=device)
    C = torch.eye(n, device=device).repeat(batch, 1, 1)
    D = torch.zeros(batch, n, m, device=device)
    system = pp.module.LTI(A, B, C, D)
    regulator = pp.module.LQR(system, Q, p, T)

    def step(x):
        _states, inputs, cost = regulator(x)
        return inputs, cost

    return step, (torch.randn(batch, n, device=device),)


def matched_clouds(device):
    """Two clouds of points, matched iteratively; and the pose of a camera."""
    import pypose as pp

    matcher = pp.module.ICP(stepper=pp.utils.ReduceToBason(steps=4))

    def step(source, target):
        return matcher(source, target)

    source = torch.rand(1, 40, 3)
    target = pp.SE3([0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]).Act(source)
    return step, (source.to(device), target.to(device))


def camera_pose(device):
    import pypose as pp

    intrinsics = torch.tensor([[2.0, 0, 0.5], [0, 2.0, 0.5], [0, 0, 1]], device=device)
    points = torch.rand(2, 12, 3, device=device) + torch.tensor([0.0, 0.0, 4.0], device=device)
    pixels = pp.point2pixel(points, intrinsics)
    solver = pp.module.EPnP()

    def step(points, pixels):
        return solver(points, pixels, intrinsics)

    return step, (points, pixels)


def thinned_clouds(device):
    """Clouds of points, thinned by voxels, neighbours and chance."""
    import pypose as pp

    def step(points):
        voxels = pp.voxel_filter(points, [0.3, 0.3, 0.3])
        near = pp.knn_filter(points, k=3)
        kept = pp.nbr_filter(points, nbr=3, radius=0.4)
        return voxels, near, kept, pp.random_filter(points, 16), pp.svdtf(points, points + 0.1)

    return step, (torch.rand(60, 3, device=device),)


def smooth_path(device):
    import pypose as pp

    def step(points, poses):
        return pp.chspline(points, 0.1), pp.bspline(poses, 0.25, extrapolate=True), pp.cumprod(poses, dim=0)

    return step, (torch.randn(1, 6, 3, device=device), pp.randn_SE3(6, device=device))


ARM = """<robot name="arm"><link name="base"/><link name="one"/><link name="two"/><link name="three"/><link name="tip"/>
<joint name="a" type="revolute"><parent link="base"/><child link="one"/>
    <origin xyz="0 0 0.1"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
<joint name="b" type="revolute"><parent link="one"/><child link="two"/>
    <origin xyz="0 0 0.3"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
<joint name="c" type="revolute"><parent link="two"/><child link="three"/>
    <origin xyz="0.3 0 0"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
<joint name="d" type="prismatic"><parent link="three"/><child link="tip"/>
    <origin xyz="0.2 0 0"/><axis xyz="1 0 0"/>
    <limit lower="-0.5" upper="0.5" effort="1" velocity="1"/></joint></robot>"""


def arm(where):
    import pytorch_kinematics as pk

    return pk.build_serial_chain_from_urdf(ARM.encode(), "tip").to(dtype=torch.float32, device=where)


def moved_arm(device):
    """Computes the position and the motion of the hand."""
    chain = arm(device)

    def step(angles):
        where = chain.forward_kinematics(angles, end_only=False)
        return where["tip"].get_matrix(), chain.jacobian(angles)

    return step, (torch.rand(8, 4, device=device),)


def reached_pose(device):
    """Joint angles by which the hand reaches poses."""
    import pytorch_kinematics as pk

    chain = arm(device)
    limits = torch.tensor(chain.get_joint_limits(), device=device)
    solver = pk.PseudoInverseIK(
        chain,
        max_iterations=4,
        num_retries=3,
        joint_limits=limits.T,
        early_stopping_any_converged=True,
        early_stopping_no_improvement="all",
        debug=False,
        lr=0.2,
    )

    def step(angles):
        goal = chain.forward_kinematics(angles)
        solution = solver.solve(goal)
        return solution.solutions, solution.converged_any

    return step, (torch.rand(4, 4, device=device),)


def trained_arm_training(device):
    """Trains a network that maps hand poses to joint angles. The loss also includes angles of rotation."""
    import pytorch_kinematics as pk

    chain = arm(device)
    model = nn.Linear(3, 4).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(goal):
        where = chain.forward_kinematics(model(goal)).get_matrix()
        turned = pk.matrix_to_axis_angle(where[:, :3, :3])
        loss = (where[:, :3, 3] - goal).square().sum(-1).mean() + turned.norm(dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(8, 3, device=device),)


def turned_frames(device):
    """Composes, inverts and perturbs transforms."""
    import pytorch_kinematics as pk

    def step(rotation, offset):
        one = pk.Transform3d(rot=rotation, pos=offset, device=device)
        both = one.compose(pk.RotateAxisAngle(30.0, axis="Z", device=device)).inverse()
        near = both
        return (
            near.transform_points(offset),
            pk.matrix_to_euler_angles(one.get_matrix()[:, :3, :3], "XYZ"),
            pk.quaternion_slerp(
                pk.matrix_to_quaternion(one.get_matrix()[0, :3, :3]), torch.tensor([1.0, 0, 0, 0], device=device), 0.5
            ),
        )

    return step, (torch.tensor([[0.0, 0.0, 0.0], [0.1, 0.2, 0.3]], device=device), torch.rand(2, 3, device=device))
