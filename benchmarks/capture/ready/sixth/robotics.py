"""Control and estimation steps for mobile bases and arms."""
import collections
import dataclasses
import enum
import functools
import itertools
import logging
import weakref

import numpy as np
import torch

log = logging.getLogger("robotics")


@dataclasses.dataclass
class WheelCalibration:
    radius: np.ndarray
    base: float = 0.42


def build_wheel_odometry(device):
    pose = torch.zeros(32, 3, device=device)

    def step(ticks, calibration):
        metres = ticks * (2.0 * np.pi * calibration.radius.item() / 64.0)
        forward = metres.mean(dim=1)
        turn = (metres[:, 1] - metres[:, 0]) / calibration.base
        heading = pose[:, 2] * 0.9 + turn
        delta = torch.stack([forward * heading.cos(), forward * heading.sin(), turn], dim=1)
        pose.mul_(0.9).add_(delta)
        return pose.clone()

    return step, (torch.rand(32, 2, device=device), WheelCalibration(np.array(0.08)))


class Gait(enum.Enum):
    WALK = (0.35, 1.0)
    TROT = (0.60, 0.5)


class GaitScheduler:
    def __init__(self, legs, device):
        self.offsets = torch.linspace(0.0, 0.75, legs, device=device)
        plan = itertools.cycle([(Gait.WALK, 60), (Gait.TROT, 25)])
        self.plan = itertools.chain.from_iterable(itertools.repeat(g, n) for g, n in plan)

    def __call__(self, clock, amplitude):
        lift, pace = next(self.plan).value
        phase = torch.remainder(clock.unsqueeze(-1) * pace + self.offsets, 1.0)
        swing = torch.clamp(phase - lift, min=0.0) / (1.0 - lift)
        return amplitude.unsqueeze(-1) * torch.sin(swing * torch.pi)


def build_gait_scheduler(device):
    return GaitScheduler(4, device), (torch.rand(16, device=device), torch.rand(16, device=device) + 0.5)


class ImuFilter:
    """Square-root form of a linear filter on three axes."""

    def __init__(self, device):
        self.state = torch.zeros(3, 1, device=device)
        self.cov = torch.eye(3, device=device)
        self.noise = 0.2 * torch.eye(3, device=device)
        self.model = torch.tensor([[0.95, 0.05, 0.0], [0.0, 0.95, 0.05], [0.0, 0.0, 0.9]], device=device)

    def __call__(self, reading):
        mean = self.model @ self.state
        prior = self.model @ self.cov @ self.model.T + 0.01 * self.noise
        root = torch.linalg.cholesky(prior + self.noise)
        gain = torch.cholesky_solve(prior, root).T
        self.state.copy_(mean + gain @ (reading.unsqueeze(1) - mean))
        self.cov.copy_(prior - gain @ prior)
        return self.state.squeeze(1).clone()


def build_imu_filter(device):
    return ImuFilter(device), (torch.randn(3, device=device),)


class Setpoint:
    def __init__(self, owner):
        weakref.finalize(self, owner.expire)


class ArmServo:
    def __init__(self, device, horizon=40):
        self.position = torch.zeros(7, device=device)
        self.recent = collections.deque(maxlen=horizon)
        self.stiffness = 0.8

    def expire(self):
        self.stiffness = max(0.2, self.stiffness * 0.97)

    def __call__(self, target):
        self.recent.append(Setpoint(self))
        self.position.lerp_(target, self.stiffness)
        return self.position * 1.0


def build_arm_servo(device):
    return ArmServo(device), (torch.randn(7, device=device),)


class DualArm:
    """Exchanges wrenches between the arms and compares their pushes."""

    def __init__(self, device):
        self.wrench = torch.zeros(1 << 16, device=device)
        self.other = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.weights = torch.rand(1 << 16, device=device)

    def __call__(self, left, right):
        self.wrench.copy_(left)
        if self.other is not None:
            self.other.wait_stream(torch.cuda.current_stream(left.device))
        with torch.cuda.stream(self.other):
            reply = torch.tanh(self.wrench * self.weights)
            balance = (reply * reply).cumsum(0)
        self.wrench.copy_(right)
        push = torch.tanh(self.wrench * self.weights)
        if self.other is not None:
            torch.cuda.current_stream(left.device).wait_stream(self.other)
        return push - reply, balance


def build_dual_arm(device):
    return DualArm(device), (torch.randn(1 << 16, device=device), torch.randn(1 << 16, device=device))


class TrajectoryTracker:
    def __init__(self, joints, device):
        self.previous = torch.zeros(8, joints, device=device)
        self.integral = torch.zeros(8, joints, device=device)
        self.gains = (1.2, 0.05, 0.3)

    def __call__(self, reference, measured):
        p, i, d = self.gains
        error = reference - measured
        self.integral.mul_(0.98).add_(error)
        command = p * error + i * self.integral + d * (error - self.previous)
        self.previous = error
        return command


def build_trajectory_tracker(device):
    return TrajectoryTracker(6, device), (torch.randn(8, 6, device=device), torch.randn(8, 6, device=device))


class ImpedanceController:
    """Keeps the last two states of the end effector."""

    def __init__(self, device):
        self.rows = torch.zeros(2, 12, device=device)
        self.turn = torch.zeros(1, dtype=torch.long, device=device)

    def __call__(self, force):
        current = self.rows.index_select(0, self.turn).squeeze(0)
        following = 0.85 * current + 0.1 * force
        self.turn.add_(1).remainder_(2)
        self.rows.index_copy_(0, self.turn, following.unsqueeze(0))
        return following


def build_impedance_controller(device):
    return ImpedanceController(device), (torch.randn(12, device=device),)


class TorqueLimiter:
    def __init__(self, device):
        self.heat = torch.zeros(16, device=device)
        self.stats = collections.Counter()

    def __call__(self, torque):
        self.stats["calls"] += 1
        if self.stats["calls"] % 100 == 0:
            log.debug("limiter ran %d times", self.stats["calls"])
        self.heat.mul_(0.95).add_(torque.square(), alpha=0.05)
        hot = self.heat > 0.9
        limit = torch.where(hot, 0.5, 2.0)
        return torch.minimum(torch.maximum(torque, -limit), limit), hot


def build_torque_limiter(device):
    return TorqueLimiter(device), (torch.randn(16, device=device),)


def _repulsion(obstacles, reach, strength, points):
    gap = points.unsqueeze(1) - obstacles
    distance = gap.norm(dim=-1, keepdim=True).clamp(min=1e-3)
    inside = (distance < reach).to(points.dtype)
    return (strength * inside * (1.0 / distance - 1.0 / reach) * gap / distance).sum(dim=1)


def build_obstacle_avoid(device):
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 4)), axis=-1).reshape(-1, 2)
    obstacles = torch.from_numpy(grid).float().to(device)
    layers = [functools.partial(_repulsion, obstacles, np.float64(r), s) for r, s in ((1.5, 0.1), (0.75, 0.3))]
    verbose = False

    def step(points, goal):
        velocity = 0.5 * (goal - points)
        for layer in layers:
            velocity = velocity + layer(points)
        if verbose:
            print(velocity)
        return torch.tanh(velocity)

    return step, (torch.rand(10, 2, device=device) * 2 - 1, torch.rand(10, 2, device=device))


class JointSmoother:
    def __init__(self, rate=0.3):
        self.rate = rate
        self.estimate = None

    def __call__(self, joints):
        if self.estimate is None:
            self.estimate = joints.clone()
        else:
            self.estimate.lerp_(joints, self.rate)
        return self.estimate.clone()


def build_joint_smoother(device):
    return JointSmoother(), (torch.randn(20, device=device),)
