"""Steps of evox, came_pytorch, pyhessian, mdot_tnt and pfrl: searches, optimisers, curvature, transport, policies."""

import torch
from torch import nn


def evolved(name, problem="Ackley", start=False, **options):
    """One generation, watched by a monitor, as in the quick start."""

    def build(device):
        from evox import algorithms
        from evox.problems import numerical
        from evox.workflows import EvalMonitor, StdWorkflow

        if start:
            algorithm = getattr(algorithms, name)(center_init=torch.ones(6, device=device), device=device, **options)
        else:
            bounds = -32 * torch.ones(6, device=device), 32 * torch.ones(6, device=device)
            algorithm = getattr(algorithms, name)(pop_size=20, lb=bounds[0], ub=bounds[1], device=device, **options)
        monitor = EvalMonitor(device=device)
        workflow = StdWorkflow(algorithm, getattr(numerical, problem)(), monitor, device=device)
        workflow.init_step()

        def step(scale):
            workflow.step()
            return monitor.get_best_fitness() * scale

        return step, (torch.ones((), device=device),)

    return build


swarm_search = evolved("PSO")
adaptive_differential_search = evolved("SHADE")
natural_search = evolved("SNES", "Sphere", start=True, sigma=1.0, pop_size=12)


def gradient_free_search(device):
    from evox.algorithms import OpenES
    from evox.problems.numerical import Rosenbrock
    from evox.workflows import EvalMonitor, StdWorkflow

    start = torch.zeros(6, device=device)
    algorithm = OpenES(16, start, learning_rate=0.05, noise_stdev=0.1, optimizer="adam", device=device)
    monitor = EvalMonitor(topk=3, device=device)
    workflow = StdWorkflow(algorithm, Rosenbrock(), monitor, device=device)
    workflow.init_step()

    def step(scale):
        workflow.step()
        return monitor.get_topk_fitness() * scale

    return step, (torch.ones((), device=device),)


def several_objectives(name):
    def build(device):
        from evox import algorithms
        from evox.metrics import igd
        from evox.problems.numerical import DTLZ2
        from evox.workflows import EvalMonitor, StdWorkflow

        with torch.device(device):
            problem = DTLZ2(m=2)
            front = problem.pf()
            bounds = torch.zeros(12), torch.ones(12)
            algorithm = getattr(algorithms, name)(pop_size=20, n_objs=2, lb=bounds[0], ub=bounds[1], device=device)
            workflow = StdWorkflow(algorithm, problem, EvalMonitor(multi_obj=True, device=device), device=device)
            workflow.init_step()

        def step(front):
            with torch.device(device):
                workflow.step()
            fitness = workflow.algorithm.fit
            return igd(fitness[~torch.isnan(fitness).any(-1)], front)

        return step, (front.to(device),)

    return build


sorted_front = several_objectives("NSGA2")
vector_front = several_objectives("RVEA")


def memory_saving_training(device):
    from came_pytorch import CAME

    model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 3)).to(device)
    optimizer = CAME(model.parameters(), lr=2e-4, weight_decay=1e-2, betas=(0.9, 0.999, 0.9999), eps=(1e-30, 1e-16))

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(12, 10, device=device), torch.randint(3, (12,), device=device))


def memory_saving_convolutions_training(device):
    from came_pytorch import CAME

    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 4)).to(device)
    optimizer = CAME(model.parameters(), lr=2e-4)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(4, 3, 8, 8, device=device), torch.randint(4, (4,), device=device))


def memory_saving_language_training(device):
    """Embeddings and groups of parameters that decay otherwise."""
    from came_pytorch import CAME

    model = nn.Sequential(nn.Embedding(30, 12), nn.LayerNorm(12), nn.Linear(12, 30)).to(device)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 1e-2}, {"params": others, "weight_decay": 0.0}]
    optimizer = CAME(groups, lr=2e-4, betas=(0.9, 0.999, 0.9999))

    def step(tokens):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randint(30, (4, 8), device=device),)


def curved(device, x, y):
    from pyhessian import hessian

    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to(device)
    return lambda x, y: hessian(model, nn.CrossEntropyLoss(), data=(x, y), cuda=device.type == "cuda")


def labelled(on):
    return torch.randn(16, 6, device=on), torch.randint(3, (16,), device=on)


def curvature_eigenvalues(device):
    data = labelled(device)
    make = curved(device, *data)
    return lambda x, y: make(x, y).eigenvalues(maxIter=10, top_n=2)[0], data


def curvature_trace(device):
    data = labelled(device)
    make = curved(device, *data)
    return lambda x, y: make(x, y).trace(maxIter=10), data


def curvature_loader(device):
    """The Hessian over several batches."""
    from pyhessian import hessian

    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to(device)

    def step(x, y):
        loader = list(zip(x.split(8), y.split(8), strict=True))
        computed = hessian(model, nn.CrossEntropyLoss(), dataloader=loader, cuda=device.type == "cuda")
        return computed.eigenvalues(maxIter=4)[0]

    return step, labelled(device)


def masses(on, *shape):
    weights = torch.rand(*shape, device=on, dtype=torch.float64) + 0.1
    return weights / weights.sum(-1, keepdim=True)


def transport_cost(device):
    from mdot_tnt import solve_OT

    cost = torch.rand(16, 16, device=device, dtype=torch.float64)
    return lambda r, c: solve_OT(r, c, cost, gamma_f=64.0), (masses(device, 16), masses(device, 16))


def transport_plan(device):
    from mdot_tnt import solve_OT

    places = torch.randn(12, 2, device=device, dtype=torch.float64), torch.randn(14, 2, device=device).double()

    def step(r, c):
        cost = torch.cdist(*places).square()
        return solve_OT(r, c, cost / cost.max(), gamma_f=64.0, return_plan=True)

    return step, (masses(device, 12), masses(device, 14))


def transport_batch(device):
    from mdot_tnt import solve_OT_batched

    cost = torch.rand(12, 12, device=device, dtype=torch.float64)
    return lambda r, c: solve_OT_batched(r, c, cost, gamma_f=64.0), (masses(device, 3, 12), masses(device, 3, 12))


def transport_single_precision(device):
    from mdot_tnt import solve_OT

    def step(r, c, cost):
        return solve_OT(r, c, cost, gamma_f=32.0, round=False, log=True)[0]

    return step, (masses(device, 12).float(), masses(device, 12).float(), torch.rand(12, 12, device=device))


def rank(on):
    return (on.index or 0) if on.type == "cuda" else None


def seen():
    import numpy as np

    return np.random.randn(4).astype(np.float32)


def turns(agent, number=6):
    """What a loop of episodes does: act, and tell the agent what came of it."""

    def step():
        import numpy as np

        observation = seen()
        for turn in range(number):
            agent.act(observation)
            observation = seen()
            done = turn == number - 1
            agent.observe(observation, float(np.random.rand()), done, done)
        return dict(agent.get_statistics())

    return step


def deep_q_training(device):
    """The quick start."""
    import numpy as np
    import pfrl

    q_function = nn.Sequential(
        nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2), pfrl.q_functions.DiscreteActionValueHead()
    )
    agent = pfrl.agents.DoubleDQN(
        q_function,
        torch.optim.Adam(q_function.parameters(), eps=1e-2),
        pfrl.replay_buffers.ReplayBuffer(capacity=1000),
        0.9,
        pfrl.explorers.ConstantEpsilonGreedy(epsilon=0.3, random_action_func=lambda: np.random.randint(2)),
        replay_start_size=8,
        minibatch_size=8,
        update_interval=1,
        target_update_interval=4,
        gpu=rank(device),
    )
    return turns(agent), ()


def prioritised_training(device):
    """Dueling networks of noisy layers, with priorities among the transitions."""
    import pfrl

    q_function = pfrl.q_functions.DistributionalFCStateQFunctionWithDiscreteAction(
        4, 2, 11, -10, 10, n_hidden_channels=16, n_hidden_layers=1
    )
    pfrl.nn.to_factorized_noisy(q_function, sigma_scale=0.5)
    agent = pfrl.agents.CategoricalDoubleDQN(
        q_function,
        torch.optim.Adam(q_function.parameters(), 1e-3),
        pfrl.replay_buffers.PrioritizedReplayBuffer(1000, alpha=0.5, beta0=0.4, num_steps=3),
        0.99,
        pfrl.explorers.Greedy(),
        replay_start_size=8,
        minibatch_size=8,
        update_interval=2,
        target_update_interval=4,
        gpu=rank(device),
    )
    return turns(agent), ()


def gaussian_actor(outputs):
    import pfrl

    head = pfrl.policies.GaussianHeadWithStateIndependentCovariance(
        action_size=outputs, var_type="diagonal", var_func=lambda x: torch.exp(2 * x), var_param_init=0
    )
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, outputs), head)


def proximal_policy_training(device):
    import pfrl

    critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    model = pfrl.nn.Branched(gaussian_actor(2), critic)
    agent = pfrl.agents.PPO(
        model,
        torch.optim.Adam(model.parameters(), lr=3e-4, eps=1e-5),
        obs_normalizer=pfrl.nn.EmpiricalNormalization(4, clip_threshold=5),
        gpu=rank(device),
        update_interval=6,
        minibatch_size=3,
        epochs=2,
        clip_eps_vf=None,
        entropy_coef=0.01,
        standardize_advantages=True,
        gamma=0.995,
        lambd=0.97,
    )
    return turns(agent), ()


def soft_actor_training(device):
    import pfrl
    from torch import distributions

    def squashed(x):
        mean, log_scale = torch.chunk(x, 2, dim=1)
        base = distributions.Independent(distributions.Normal(mean, torch.exp(log_scale.clamp(-20.0, 2.0))), 1)
        return distributions.TransformedDistribution(base, [distributions.transforms.TanhTransform(cache_size=1)])

    policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4), pfrl.nn.lmbda.Lambda(squashed))

    def critic():
        return nn.Sequential(pfrl.nn.ConcatObsAndAction(), nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))

    critics = [critic() for _ in range(2)]
    agent = pfrl.agents.SoftActorCritic(
        policy,
        *critics,
        torch.optim.Adam(policy.parameters(), lr=3e-4),
        *(torch.optim.Adam(critic.parameters(), lr=3e-4) for critic in critics),
        pfrl.replay_buffers.ReplayBuffer(1000),
        gamma=0.99,
        replay_start_size=8,
        gpu=rank(device),
        minibatch_size=8,
        entropy_target=-2,
        temperature_optimizer_lr=3e-4,
    )
    return turns(agent), ()


def twin_delayed_training(device):
    import pfrl

    head = pfrl.policies.DeterministicHead()
    policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2), nn.Tanh(), head)

    def critic():
        return nn.Sequential(pfrl.nn.ConcatObsAndAction(), nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))

    critics = [critic() for _ in range(2)]
    agent = pfrl.agents.TD3(
        policy,
        *critics,
        torch.optim.Adam(policy.parameters()),
        *(torch.optim.Adam(critic.parameters()) for critic in critics),
        pfrl.replay_buffers.ReplayBuffer(1000),
        gamma=0.99,
        soft_update_tau=5e-3,
        explorer=pfrl.explorers.AdditiveGaussian(scale=0.1, low=-1.0, high=1.0),
        replay_start_size=8,
        gpu=rank(device),
        minibatch_size=8,
    )
    return turns(agent), ()
