"""Steps of mpc and pytorch_mppi: control of known and of learned dynamics."""

import math

import torch
from torch import nn


def planned_pendulum(device):
    """The pendulum of the documentation: iterated LQR with bounds on the torque."""
    from mpc import mpc
    from mpc.env_dx import pendulum

    params = torch.tensor((10.0, 1.0, 1.0), device=device)
    dx = pendulum.PendulumDx(params, simple=True)
    batch, horizon = 2, 5
    weights, goal = torch.tensor((1.0, 1.0, 0.1)), torch.tensor((1.0, 0.0, 0.0))
    q = torch.cat((weights, 0.001 * torch.ones(dx.n_ctrl))).to(device)
    px = torch.cat((-torch.sqrt(weights) * goal, torch.zeros(dx.n_ctrl))).to(device)
    Q = torch.diag(q).unsqueeze(0).unsqueeze(0).repeat(horizon, batch, 1, 1)
    p = px.unsqueeze(0).repeat(horizon, batch, 1)
    cost = mpc.QuadCost(Q, p)

    def step(x, u_init):
        controller = mpc.MPC(
            dx.n_state,
            dx.n_ctrl,
            horizon,
            u_init=u_init,
            u_lower=dx.lower,
            u_upper=dx.upper,
            lqr_iter=5,
            verbose=0,
            exit_unconverged=False,
            detach_unconverged=False,
            linesearch_decay=dx.linesearch_decay,
            max_linesearch_iter=dx.max_linesearch_iter,
            grad_method=mpc.GradMethods.AUTO_DIFF,
            eps=1e-2,
        )
        _states, actions, objectives = controller(x, cost, dx)
        u_init = torch.cat((actions[1:], torch.zeros(1, batch, dx.n_ctrl, device=x.device)), dim=0)
        return dx(x, actions[0]), u_init, objectives

    theta = torch.rand(batch, device=device) * math.pi - math.pi / 2
    state = torch.stack((torch.cos(theta), torch.sin(theta), torch.rand(batch, device=device)), dim=1)
    return step, (state, torch.zeros(horizon, batch, dx.n_ctrl, device=device))


def learned_dynamics_training(device):
    """Imitation of an expert through the controller: gradients of linear dynamics."""
    from mpc import mpc

    n_state, n_ctrl, horizon, batch = 3, 2, 4, 2
    A = nn.Parameter((torch.eye(n_state) + 0.2 * torch.randn(n_state, n_state)).to(device))
    B = nn.Parameter(torch.randn(n_state, n_ctrl).to(device))
    optimizer = torch.optim.RMSprop([A, B], lr=1e-2)
    Q = torch.eye(n_state + n_ctrl, device=device).repeat(horizon, batch, 1, 1)
    p = torch.zeros(horizon, batch, n_state + n_ctrl, device=device)

    def step(x, expert):
        F = torch.cat((A, B), dim=1).unsqueeze(0).unsqueeze(0).repeat(horizon, batch, 1, 1)
        _states, actions, _objectives = mpc.MPC(
            n_state,
            n_ctrl,
            horizon,
            u_lower=-1.0,
            u_upper=1.0,
            lqr_iter=8,
            verbose=-1,
            exit_unconverged=False,
            detach_unconverged=False,
            n_batch=batch,
        )(x, mpc.QuadCost(Q, p), mpc.LinDx(F))
        loss = (actions - expert).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(batch, n_state, device=device), torch.rand(horizon, batch, n_ctrl, device=device) - 0.5)


def network_dynamics_plan(device):
    from mpc import mpc
    from mpc.dynamics import NNDynamics

    n_state, n_ctrl, horizon, batch = 3, 1, 4, 2
    dynamics = NNDynamics(n_state, n_ctrl, hidden_sizes=[8], activation="sigmoid").to(device)
    Q = torch.eye(n_state + n_ctrl, device=device).repeat(horizon, batch, 1, 1)
    p = torch.zeros(horizon, batch, n_state + n_ctrl, device=device)
    controller = mpc.MPC(
        n_state,
        n_ctrl,
        horizon,
        u_lower=-torch.ones(horizon, batch, n_ctrl, device=device),
        u_upper=torch.ones(horizon, batch, n_ctrl, device=device),
        lqr_iter=4,
        grad_method=mpc.GradMethods.ANALYTIC,
        exit_unconverged=False,
        n_batch=batch,
        verbose=-1,
    )

    def step(x):
        return controller(x, mpc.QuadCost(Q, p), dynamics)

    return step, (torch.randn(batch, n_state, device=device),)


def drawn_control(kind, **options):
    """A command of a path-integral controller."""

    def build(device):
        import pytorch_mppi

        def dynamics(state, action):
            velocity = state[:, 2:] + 0.1 * action
            return torch.cat((state[:, :2] + 0.1 * velocity, velocity), dim=1)

        def cost(state, action):
            return state[:, :2].square().sum(-1) + 0.01 * action.square().sum(-1)

        more = {
            name: torch.tensor(value, device=device) if isinstance(value, list) else value
            for name, value in options.items()
        }
        controller = getattr(pytorch_mppi, kind)(
            dynamics, cost, 4, torch.eye(2, device=device), num_samples=16, horizon=6, device=device, **more
        )

        def step(state):
            action = controller.command(state)
            return action, dynamics(state[None], action[None])[0]

        return step, (torch.randn(4, device=device),)

    return build


sampled_control = drawn_control("MPPI", lambda_=0.5, u_min=[-1.0, -1.0], u_max=[1.0, 1.0])
smooth_control = drawn_control("SMPPI", w_action_seq_cost=2.0, action_min=[-1.0, -1.0], action_max=[1.0, 1.0])
kernel_control = drawn_control("KMPPI", num_support_pts=3, u_min=[-1.0, -1.0], u_max=[1.0, 1.0])


def judged_control(device):
    """A terminal cost, several rollouts of each sample, and the rollouts of the plan."""
    import pytorch_mppi

    def dynamics(state, action, t):
        return state + 0.1 * action + 0.01 * torch.randn_like(state)

    def cost(state, action, t):
        return state.square().sum(-1)

    def last(states, actions):
        return states[..., -1, :].square().sum(-1)

    controller = pytorch_mppi.MPPI(
        dynamics,
        cost,
        2,
        0.5 * torch.eye(2, device=device),
        num_samples=12,
        horizon=5,
        device=device,
        terminal_state_cost=last,
        step_dependent_dynamics=True,
        rollout_samples=2,
        rollout_var_cost=0.1,
        sample_null_action=True,
        noise_abs_cost=True,
    )

    def step(state):
        action = controller.command(state, shift_nominal_trajectory=False)
        controller.command(state)
        return action, controller.get_rollouts(state, num_rollouts=3)

    return step, (torch.randn(2, device=device),)
