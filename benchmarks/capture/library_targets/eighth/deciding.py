"""Steps of torch_ac, pfhedge and proxy_losses: agents, hedges of options, losses of rankings."""

import numpy as np
import torch
from torch import nn


def walk():
    import gymnasium

    class Walk(gymnasium.Env):
        """A walk to one end of a line."""

        observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.place = self.time = 0
            return self.seen(), {}

        def seen(self):
            return np.array([self.place / 5, self.time / 10, 1.0], dtype=np.float32)

        def step(self, action):
            self.place += 2 * int(action) - 1
            self.time += 1
            return self.seen(), float(self.place > 0), abs(self.place) >= 5, self.time >= 10, {}

    return Walk()


def agent(device, kind, recurrent=False, **options):
    import torch_ac

    base = (nn.Module, torch_ac.RecurrentACModel) if recurrent else (nn.Module, torch_ac.ACModel)

    class Model(*base):
        recurrent = base[1] is torch_ac.RecurrentACModel
        memory_size = 16

        def __init__(self):
            super().__init__()
            self.embed = nn.Sequential(nn.Linear(3, 8), nn.Tanh())
            self.actor, self.critic = nn.Linear(8, 2), nn.Linear(8, 1)
            if self.recurrent:
                self.cell = nn.LSTMCell(8, 8)

        def forward(self, obs, memory=None):
            x = self.embed(obs)
            if memory is not None:
                hidden, cell = self.cell(x, (memory[:, :8], memory[:, 8:]))
                x, memory = hidden, torch.cat([hidden, cell], 1)
            logits = self.actor(x)
            dist = torch.distributions.Categorical(logits=torch.log_softmax(logits, dim=1))
            value = self.critic(x).squeeze(1)
            return (dist, value) if memory is None else (dist, value, memory)

    def preprocess_obss(obss, device=None):
        return torch.tensor(np.array(obss), device=device)

    return getattr(torch_ac, kind)(
        [walk()],
        Model(),
        device=device,
        num_frames_per_proc=16,
        recurrence=4 if recurrent else 1,
        preprocess_obss=preprocess_obss,
        **options,
    )


def agent_training(kind, **options):
    def build(device):
        algo = agent(device, kind, **options)

        def step(scale):
            exps, logs1 = algo.collect_experiences()
            logs2 = algo.update_parameters(exps)
            return exps.returnn.mean() * scale, {**logs1, **logs2}

        return step, (torch.ones((), device=device),)

    return build


actor_critic_training = agent_training("A2CAlgo")
proximal_training = agent_training("PPOAlgo", epochs=2, batch_size=8)
recurrent_training = agent_training("PPOAlgo", recurrent=True, epochs=1, batch_size=8)


def rollout(device):
    algo = agent(device, "A2CAlgo", recurrent=True)
    return lambda scale: algo.collect_experiences()[0].advantage * scale, (torch.ones((), device=device),)


def hedger_of(device, criterion=None):
    from pfhedge.instruments import BrownianStock, EuropeanOption
    from pfhedge.nn import EntropicRiskMeasure, Hedger, MultiLayerPerceptron

    derivative = EuropeanOption(BrownianStock(cost=1e-4), maturity=5 / 250).to(device)
    model = MultiLayerPerceptron(in_features=4, n_layers=2, n_units=8)
    inputs = ["log_moneyness", "expiry_time", "volatility", "prev_hedge"]
    return Hedger(model, inputs=inputs, criterion=criterion or EntropicRiskMeasure()).to(device), derivative


def hedging_training(device):
    """One epoch of a fit."""
    hedger, derivative = hedger_of(device)
    optimizer = torch.optim.Adam(hedger.parameters())

    def step(scale):
        optimizer.zero_grad()
        loss = hedger.compute_loss(derivative, n_paths=50) * scale
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.ones((), device=device),)


def hedging_fit(device):
    from pfhedge.nn import ExpectedShortfall

    hedger, derivative = hedger_of(device, ExpectedShortfall(0.2))
    return lambda scale: hedger.fit(derivative, n_epochs=2, n_paths=50, verbose=False)[-1] * scale, (
        torch.ones((), device=device),
    )


def hedging_price(device):
    from pfhedge.instruments import HestonStock, LookbackOption
    from pfhedge.nn import BlackScholes, Hedger

    derivative = LookbackOption(HestonStock(), maturity=5 / 250).to(device)
    model = BlackScholes(derivative)
    hedger = Hedger(model, inputs=model.inputs()).to(device)
    return lambda scale: hedger.price(derivative, n_paths=20) * scale, (torch.ones((), device=device),)


def hedging_band(device):
    """Whalley and Wilmott's strategy with costs."""
    from pfhedge.instruments import BrownianStock, EuropeanOption
    from pfhedge.nn import Hedger, WhalleyWilmott

    derivative = EuropeanOption(BrownianStock(cost=1e-3), maturity=5 / 250).to(device)
    model = WhalleyWilmott(derivative)
    hedger = Hedger(model, inputs=model.inputs()).to(device)
    return lambda scale: hedger.compute_pnl(derivative, n_paths=20) * scale, (torch.ones((), device=device),)


def paths(device):
    """Prices that jump, and rates."""
    from pfhedge.stochastic import generate_cir, generate_kou_jump, generate_rough_bergomi

    def step(initial):
        jumps = generate_kou_jump(8, 10, device=initial.device)
        rates = generate_cir(8, 10, device=initial.device)
        return jumps * initial, rates, generate_rough_bergomi(8, 10, device=initial.device).spot

    return step, (torch.full((), 1.1, device=device),)


def greeks(device):
    from pfhedge.nn import BSEuropeanOption

    bs = BSEuropeanOption(strike=1.0).to(device)

    def step(moneyness, time, volatility):
        price = bs.price(moneyness, time, volatility)
        return (
            bs.delta(moneyness, time, volatility),
            bs.gamma(moneyness, time, volatility),
            (bs.implied_volatility(moneyness, time, price=price)),
        )

    return step, tuple(torch.rand(10, device=device) * scale + 0.05 for scale in (0.1, 0.5, 0.3))


def ranking(kind, classes, wrapped=False, **options):
    """A classifier whose loss is that of its ranking."""

    def build(device):
        import proxy_losses

        model = nn.Linear(8, classes).to(device)
        loss_of = getattr(proxy_losses, kind)(num_classes=classes, queue_size=64, **options).to(device)
        if wrapped:
            loss_of = proxy_losses.LossWarmupWrapper(
                nn.CrossEntropyLoss(), loss_of, 0, 0.1, 0.01, temp_decay_steps=100, blend_epochs=2
            ).to(device)
            loss_of.on_train_epoch_start(1)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(x, y):
            if wrapped:
                loss_of.on_train_batch_start(0)
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (torch.randn(16, 8, device=device), torch.randint(max(classes, 2), (16,), device=device))

    return build


precision_training = ranking("SmoothAPLoss", 4)
recall_training = ranking("RecallAtQuantileLoss", 1, quantile=0.1)
warmup_training = ranking("SmoothAPLoss", 4, wrapped=True)


def precision_per_class(device):
    from proxy_losses import SmoothAPLoss

    loss_of = SmoothAPLoss(num_classes=4, queue_size=0, ignore_index=-1).to(device).eval()

    def step(logits, targets):
        loss, per_class, valid = loss_of(logits, targets, return_per_class=True)
        return loss, {c: per_class[c] for c in valid.nonzero(as_tuple=True)[0].tolist()}

    return step, (torch.randn(16, 4, device=device), torch.randint(-1, 4, (16,), device=device))
