"""Steps of stable_baselines3, skrl, torchrl and tensordict: collecting, advantages, losses, buffers, environments."""

import tempfile

import torch
from torch import nn


def learnt(name, **options):
    """A short turn of learning: collecting and updating."""

    def build(device):
        import gymnasium
        import stable_baselines3

        env = gymnasium.make(
            "Pendulum-v1" if name in ("SAC", "TD3", "DDPG") or options.get("use_sde") else "CartPole-v1"
        )
        model = getattr(stable_baselines3, name)(
            "MlpPolicy", env, device="cuda", seed=0, policy_kwargs={"net_arch": [16]}, **options
        )

        def step():
            model.learn(options.get("n_steps", 16), reset_num_timesteps=False, log_interval=1000)

        return step, ()

    return build


clipped_learning = learnt("PPO", n_steps=32, batch_size=16, n_epochs=2, target_kl=0.5, clip_range_vf=0.2)
explored_learning = learnt("PPO", n_steps=16, batch_size=8, n_epochs=1, use_sde=True, sde_sample_freq=4)
advantage_learning = learnt("A2C", n_steps=8, normalize_advantage=True)
value_learning = learnt("DQN", learning_starts=4, train_freq=4, batch_size=8, buffer_size=100, target_update_interval=8)
soft_learning = learnt("SAC", learning_starts=4, batch_size=8, buffer_size=100)
twin_learning = learnt("TD3", learning_starts=4, batch_size=8, buffer_size=100)


def spaces():
    import gymnasium

    return gymnasium.spaces.Box(-1, 1, (4,)), gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(3)


def nets(where, kind):
    """Models of skrl."""
    from skrl.models.torch import DeterministicMixin, GaussianMixin, Model

    space, continuous, discrete = spaces()

    class Policy(GaussianMixin, Model):
        def __init__(self):
            Model.__init__(self, observation_space=space, action_space=continuous, device=where)
            GaussianMixin.__init__(self, clip_actions=True, clip_log_std=True, min_log_std=-5, max_log_std=2)
            self.net, self.log_std = (
                nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)),
                nn.Parameter(torch.zeros(2)),
            )

        def compute(self, inputs, role=""):
            return self.net(inputs["observations"]), {"log_std": self.log_std}

    class Value(DeterministicMixin, Model):
        def __init__(self, inputs=4, outputs=1, action=continuous):
            Model.__init__(self, observation_space=space, action_space=action, device=where)
            DeterministicMixin.__init__(self)
            self.net = nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs))

        def compute(self, inputs, role=""):
            x = inputs["observations"]
            if self.net[0].in_features > 4:
                x = torch.cat([x, inputs["taken_actions"]], -1)
            return self.net(x), {}

    if kind == "on":
        made = {"policy": Policy(), "value": Value()}
    elif kind == "soft":
        made = {
            "policy": Policy(),
            **{name: Value(6) for name in ("critic_1", "critic_2", "target_critic_1", "target_critic_2")},
        }
    else:
        made = {"q_network": Value(4, 3, discrete), "target_q_network": Value(4, 3, discrete)}
    return {name: model.to(where) for name, model in made.items()}


def interacted(kind, name, **cfg):
    """An agent of skrl in eight environments of the device: steps, then an update."""

    def build(device):
        import importlib

        from skrl.memories.torch import RandomMemory

        module = importlib.import_module(f"skrl.agents.torch.{name.lower()}")
        space, continuous, discrete = spaces()
        memory = RandomMemory(memory_size=8, num_envs=4, device=device)
        options = {
            "experiment": {"write_interval": 0, "checkpoint_interval": 0, "directory": tempfile.gettempdir()},
            **cfg,
        }
        agent = getattr(module, name)(
            models=nets(device, kind),
            memory=memory,
            observation_space=space,
            action_space=discrete if kind == "q" else continuous,
            device=device,
            cfg=options,
        )
        agent.init()
        agent.enable_training_mode(True) if hasattr(agent, "enable_training_mode") else None
        at = [0]

        def step(observations):
            for _ in range(8):
                agent.pre_interaction(timestep=at[0], timesteps=1000)
                with torch.no_grad():
                    actions = agent.act(observations, None, timestep=at[0], timesteps=1000)[0]
                    following = observations + 0.1
                    rewards = -following.square().sum(-1, keepdim=True)
                    done = torch.zeros(4, 1, dtype=torch.bool, device=device)
                    agent.record_transition(
                        observations=observations,
                        states=None,
                        actions=actions,
                        rewards=rewards,
                        next_observations=following,
                        next_states=None,
                        terminated=done,
                        truncated=done,
                        infos={},
                        timestep=at[0],
                        timesteps=1000,
                    )
                agent.post_interaction(timestep=at[0], timesteps=1000)
                at[0] += 1

        return step, (torch.randn(4, 4, device=device),)

    return build


def proximal_agent(device):
    """PPO with scaled observations and values, a learning rate that follows the divergence."""
    from skrl.resources.preprocessors.torch import RunningStandardScaler
    from skrl.resources.schedulers.torch import KLAdaptiveLR

    space = spaces()[0]
    return interacted(
        "on",
        "PPO",
        rollouts=8,
        learning_epochs=2,
        mini_batches=2,
        kl_threshold=0.5,
        grad_norm_clip=0.5,
        entropy_loss_scale=0.01,
        learning_rate_scheduler=KLAdaptiveLR,
        learning_rate_scheduler_kwargs={"kl_threshold": 0.008},
        observation_preprocessor=RunningStandardScaler,
        observation_preprocessor_kwargs={"size": space, "device": device},
        value_preprocessor=RunningStandardScaler,
        value_preprocessor_kwargs={"size": 1, "device": device},
    )(device)


advantage_agent = interacted("on", "A2C", rollouts=8, mini_batches=1)
trust_agent = interacted("on", "TRPO", rollouts=8, mini_batches=1)
soft_agent = interacted("soft", "SAC", batch_size=8, random_timesteps=0, learning_starts=4, learn_entropy=True)
value_agent = interacted("q", "DQN", batch_size=8, random_timesteps=0, learning_starts=4, update_interval=1)


def crossed_entropies(device):
    from skrl.resources.noises.torch import GaussianNoise, OrnsteinUhlenbeckNoise

    noises = (
        GaussianNoise(mean=0, std=0.1, device=device),
        OrnsteinUhlenbeckNoise(theta=0.1, sigma=0.2, base_scale=0.5, device=device),
    )

    def step(actions):
        return actions + noises[0].sample(actions.shape) + noises[1].sample(actions.shape)

    return step, (torch.randn(4, 2, device=device),)


def actor(where, discrete=False):
    from tensordict.nn import NormalParamExtractor, TensorDictModule
    from torchrl.modules import OneHotCategorical, ProbabilisticActor, TanhNormal

    if discrete:
        net = TensorDictModule(nn.Linear(4, 3), in_keys=["observation"], out_keys=["logits"])
        return ProbabilisticActor(
            net, in_keys=["logits"], distribution_class=OneHotCategorical, return_log_prob=True
        ).to(where)
    net = TensorDictModule(
        nn.Sequential(nn.Linear(4, 4), NormalParamExtractor()), in_keys=["observation"], out_keys=["loc", "scale"]
    )
    return ProbabilisticActor(net, in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True).to(
        where
    )


def rollout(where, policy, batch=(4, 8)):
    from tensordict import TensorDict

    data = TensorDict({"observation": torch.randn(*batch, 4)}, batch_size=batch, device=where)
    with torch.no_grad():
        data = policy(data)
    data["next"] = TensorDict(
        {
            "observation": torch.randn(*batch, 4),
            "reward": torch.randn(*batch, 1),
            "done": torch.rand(*batch, 1) > 0.9,
            "terminated": torch.rand(*batch, 1) > 0.95,
        },
        batch_size=batch,
    )
    return data


def proximal_losses_training(device):
    """Advantages of a rollout, minibatches from a buffer, losses, gradients."""
    from torchrl.data import LazyTensorStorage, ReplayBuffer
    from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
    from torchrl.modules import ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    policy, critic = actor(device), ValueOperator(nn.Linear(4, 1), in_keys=["observation"]).to(device)
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=True)
    criterion = ClipPPOLoss(policy, critic, clip_epsilon=0.2, entropy_coeff=0.01, normalize_advantage=True)
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(32, device=device), sampler=SamplerWithoutReplacement(), batch_size=16
    )
    optimizer = torch.optim.Adam(criterion.parameters(), lr=1e-3)

    def step(data):
        advantage(data)
        buffer.extend(data.reshape(-1))
        for _ in range(2):
            losses = criterion(buffer.sample())
            loss = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(criterion.parameters(), 1.0)
            optimizer.step()
        return loss.detach()

    return step, (rollout(device, policy),)


def replayed_training(device):
    """Values of discrete actions from a buffer; targets that follow."""
    from torchrl.data import LazyTensorStorage, OneHot, TensorDictReplayBuffer
    from torchrl.modules import QValueActor
    from torchrl.objectives import DQNLoss, SoftUpdate

    net = QValueActor(nn.Linear(4, 3), in_keys=["observation"], spec=OneHot(3)).to(device)
    criterion = DQNLoss(net, action_space=OneHot(3), delay_value=True)
    updater = SoftUpdate(criterion, eps=0.99)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(64, device=device), batch_size=8, priority_key="td_error")
    optimizer = torch.optim.Adam(criterion.parameters(), lr=1e-3)

    def step(data):
        buffer.extend(data)
        sample = buffer.sample()
        loss = criterion(sample)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updater.step()
        return loss.detach()

    return step, (rollout(device, net, (16,)),)


def soft_losses_training(device):
    """Soft actor and critics with a temperature that is learnt."""
    from torchrl.modules import ValueOperator
    from torchrl.objectives import SACLoss, SoftUpdate

    class Q(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(6, 1)

        def forward(self, observation, action):
            return self.net(torch.cat([observation, action], -1))

    policy = actor(device)
    critic = ValueOperator(Q(), in_keys=["observation", "action"]).to(device)
    criterion = SACLoss(policy, critic, num_qvalue_nets=2, target_entropy=-2.0).to(device)
    criterion.make_value_estimator(gamma=0.99)
    updater = SoftUpdate(criterion, tau=0.01)
    optimizer = torch.optim.Adam(criterion.parameters(), lr=1e-3)

    def step(data):
        losses = criterion(data)
        loss = losses["loss_actor"] + losses["loss_qvalue"] + losses["loss_alpha"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updater.step()
        return loss.detach()

    return step, (rollout(device, policy, (16,)),)


def estimated_returns(device):
    """Advantages by other estimators."""
    from torchrl.modules import ValueOperator
    from torchrl.objectives.value import TD0Estimator, TDLambdaEstimator, VTrace

    policy, critic = actor(device), ValueOperator(nn.Linear(4, 1), in_keys=["observation"]).to(device)
    estimators = (
        TD0Estimator(gamma=0.9, value_network=critic),
        TDLambdaEstimator(gamma=0.9, lmbda=0.9, value_network=critic),
    )
    trace = VTrace(gamma=0.9, value_network=critic, actor_network=policy)

    def step(data):
        for estimator in estimators:
            estimator(data)
        return trace(data)["advantage"]

    data = rollout(device, policy)
    return step, (data,)


def swung_pendulum(device):
    """An environment on the device, with transforms, and its rollouts."""
    from torchrl.envs import Compose, DoubleToFloat, RewardSum, StepCounter, TransformedEnv
    from torchrl.envs.custom.pendulum import PendulumEnv

    env = TransformedEnv(PendulumEnv(device=device), Compose(StepCounter(max_steps=6), DoubleToFloat(), RewardSum()))

    def step():
        return env.rollout(8, break_when_any_done=True)

    return step, ()


def collected_data(device):
    """Nested data that is stacked, chosen, masked, padded and put in order."""
    from tensordict import TensorDict, pad_sequence
    from tensordict.nn import TensorDictModule, TensorDictSequential

    model = TensorDictSequential(
        TensorDictModule(nn.Linear(4, 8), in_keys=[("agents", "observation")], out_keys=["hidden"]),
        TensorDictModule(nn.Linear(8, 2), in_keys=["hidden"], out_keys=["action"]),
    ).to(device)

    def step(data, mask):
        out = model(data)
        chosen = out[mask]
        padded = pad_sequence([out[0], out[1, :2]])
        joined = torch.stack([out, out.clone()], 0).flatten(0, 1)
        chosen["action"].sum().backward()
        return (
            joined.masked_select(mask.repeat(2, 1)),
            padded,
            (out == out).all(),
            out.isnan().any() if hasattr(out, "isnan") else None,
        )

    data = TensorDict(
        {"agents": {"observation": torch.randn(3, 5, 4)}, "extra": torch.arange(15).reshape(3, 5)},
        batch_size=(3, 5),
        device=device,
    )
    return step, (data, torch.rand(3, 5, device=device) > 0.4)


def distributed_actions(device):
    """Distributions of actions: masked, truncated, of one hot vectors."""
    from torchrl.modules import MaskedCategorical, OneHotCategorical, TanhDelta, TruncatedNormal

    def step(logits, mask, loc):
        masked = MaskedCategorical(logits=logits, mask=mask)
        hot = OneHotCategorical(logits=logits)
        bounded = TruncatedNormal(loc, torch.ones_like(loc), low=-1.0, high=1.0)
        drawn = (
            masked.sample(),
            hot.rsample() if hot.has_rsample else hot.sample(),
            bounded.rsample(),
            TanhDelta(loc).rsample(),
        )
        return drawn, masked.log_prob(drawn[0]), hot.log_prob(drawn[1]), bounded.log_prob(drawn[2])

    mask = torch.rand(4, 6, device=device) > 0.3
    mask[:, 0] = True
    return step, (torch.randn(4, 6, device=device), mask, torch.randn(4, 3, device=device))


def recalled_experience(device):
    """Buffers of trajectories: slices, drawn with and without replacement."""
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
    from torchrl.data.replay_buffers.samplers import SliceSampler, SliceSamplerWithoutReplacement

    buffers = [
        TensorDictReplayBuffer(storage=LazyTensorStorage(64, device=device), sampler=sampler, batch_size=12)
        for sampler in (
            SliceSampler(slice_len=4, traj_key="episode"),
            SliceSamplerWithoutReplacement(slice_len=4, traj_key="episode"),
        )
    ]

    def step(data):
        samples = []
        for buffer in buffers:
            buffer.extend(data)
            samples.append(buffer.sample())
        return samples

    episodes = torch.arange(4).repeat_interleave(8)
    done = torch.zeros(32, 1, dtype=torch.bool)
    done[7::8] = True
    return step, (
        TensorDict(
            {
                "episode": episodes,
                "obs": torch.randn(32, 3),
                "next": {"done": done, "terminated": done, "truncated": torch.zeros_like(done)},
            },
            [32],
            device=device,
        ),
    )


def ensembled_training(device):
    """Several networks at once, by parameters that are stacked."""
    from tensordict import TensorDict, TensorDictParams

    nets_ = [nn.Linear(4, 2).to(device) for _ in range(3)]
    params = TensorDictParams(TensorDict.from_modules(*nets_, as_module=False))
    net = nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(params.parameters(), lr=0.1)

    def call(x, values):
        with values.to_module(net):
            return net(x)

    def step(x):
        out = torch.vmap(call, (None, 0))(x, params)
        loss = out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        norm = params.data.norm()
        optimizer.step()
        return loss.detach(), norm

    return step, (torch.randn(8, 4, device=device),)


def handed_over(device):
    """Copies data from the host to the device, changes and rearranges it, and copies a part of it back."""
    from tensordict import TensorDict

    def step(data):
        moved = data.to(device)
        moved["mean"] = moved["x"].mean(-1, keepdim=True)
        moved = moved.apply(lambda x: x.float().clamp(-1, 1))
        best = moved.max(dim=0).values
        filled = moved.masked_fill(moved["x"][..., 0] > 0, 0)
        order = moved.gather(0, torch.arange(5, -1, -1, device=device))
        parts = moved.split([2, 4], 0)
        return filled.cpu(), best, order, [part.to_dict() for part in parts], moved.flatten_keys(".").select("x")

    return step, (TensorDict({"x": torch.randn(6, 3), "n": {"y": torch.arange(6)}}, [6]),)
