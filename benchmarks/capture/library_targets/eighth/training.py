"""Steps of optimi, swarmtorch, betty, unit_scaling, nngeometry, torch_pruning and torchbearer: ways to train."""

import torch
from torch import nn


def network(device, dtype=torch.float32):
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).to(device, dtype)


def batch(device, dtype=torch.float32):
    return torch.randn(12, 8, device=device, dtype=dtype), torch.randint(3, (12,), device=device)


def optimized(kind, dtype=torch.float32, **options):
    def build(device):
        import optimi

        model = network(device, dtype)
        optimizer = getattr(optimi, kind)(model.parameters(), lr=1e-3, weight_decay=1e-5, **options)

        def step(x, y):
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return step, batch(device, dtype)

    return build


kahan_training = optimized("AdamW", torch.bfloat16, decouple_lr=True)
adan_training = optimized("Adan", triton=False)
stable_training = optimized("StableAdamW", foreach=True)
ranger_training = optimized("Ranger", triton=False)


def gradient_release_training(device):
    """The optimizer steps in the backward pass."""
    from optimi import AdamW, prepare_for_gradient_release

    model = network(device)
    optimizer = AdamW(model.parameters(), lr=1e-3, gradient_release=True)
    prepare_for_gradient_release(model, optimizer)

    def step(x, y):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, batch(device)


def swarmed(kind, **options):
    """Weights that are searched without gradients."""

    def build(device):
        import swarmtorch

        model = network(device)
        optimizer = getattr(swarmtorch, kind)(model.parameters(), device=str(device), **options)

        def step(x, y):
            def closure():
                optimizer.zero_grad()
                return nn.functional.cross_entropy(model(x), y)

            return optimizer.step(closure)

        return step, batch(device)

    return build


particle_swarm = swarmed("PSO", swarm_size=6)
differential_evolution = swarmed("DE", population_size=6)
grey_wolves = swarmed("GWO", swarm_size=6)
harmony_search = swarmed("HarmonySearch", swarm_size=6)
annealing = swarmed("SA")


def bilevel(kind):
    """Weight decay of every weight as a hyperparameter."""

    def build(device):
        from betty.configs import Config, EngineConfig
        from betty.engine import Engine
        from betty.problems import ImplicitProblem

        train, valid = [batch(device)], [batch(device)]

        class Decay(nn.Module):
            def __init__(self):
                super().__init__()
                self.decay = nn.Parameter(torch.full((), 0.01))

            def forward(self):
                return self.decay

        class Outer(ImplicitProblem):
            def training_step(self, batch):
                inputs, labels = batch
                return nn.functional.cross_entropy(self.inner(inputs), labels)

        class Inner(ImplicitProblem):
            def training_step(self, batch):
                inputs, labels = batch
                loss = nn.functional.cross_entropy(self.module(inputs), labels)
                return loss + self.outer() * sum(p.norm().pow(2) for p in self.module.parameters())

        decay, model = Decay().to(device), network(device)
        outer = Outer(
            name="outer",
            module=decay,
            optimizer=torch.optim.Adam(decay.parameters(), lr=1e-3),
            train_data_loader=valid,
            config=Config(type=kind, log_step=-1, first_order=True),
            device=device,
        )
        inner = Inner(
            name="inner",
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            train_data_loader=train,
            config=Config(type=kind, unroll_steps=1),
            device=device,
        )
        engine = Engine(
            config=EngineConfig(train_iters=10),
            problems=[outer, inner],
            dependencies={"u2l": {outer: [inner]}, "l2u": {inner: [outer]}},
        )
        engine.train()

        def step(scale):
            engine.global_step += 1
            engine.train_step()
            return decay.decay.detach() * scale

        return step, (torch.ones((), device=device),)

    return build


darts_hyperparameter = bilevel("darts")
neumann_hyperparameter = bilevel("neumann")
conjugate_hyperparameter = bilevel("cg")


def scaled_language_model_training(device):
    import unit_scaling as uu

    model = uu.TransformerDecoder(hidden_size=32, vocab_size=50, layers=2, heads=2).to(device)
    optimizer = uu.optim.AdamW(model.parameters(), lr=1.0)

    def step(tokens):
        optimizer.zero_grad()
        loss = model.loss(tokens)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randint(50, (2, 12), device=device),)


def scaled_training(device):
    import unit_scaling as uu
    import unit_scaling.functional as U

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = uu.LayerNorm(8)
            self.up, self.down, self.out = uu.Linear(8, 16), uu.Linear(16, 8), uu.LinearReadout(8, 3)

        def forward(self, x):
            skip, x = U.residual_split(x, tau=0.5)
            skip = self.down(U.gelu(self.up(self.norm(skip))))
            return self.out(U.residual_add(skip, x, tau=0.5))

    model, loss_of = Model().to(device), uu.CrossEntropyLoss()
    optimizer = uu.optim.Adam(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, batch(device)


def scaled_attention(device):
    """One layer of a decoder whose batch is in half precision."""
    import unit_scaling as uu

    layer = uu.TransformerLayer(32, heads=2, mhsa_tau=0.5, mlp_tau=0.5, is_causal=True, dropout_p=0.1)
    layer = layer.to(device, torch.bfloat16).train()

    def step(x):
        out = layer(x)
        out.square().mean().backward()
        return out.detach()

    return step, (torch.randn(2, 12, 32, device=device, dtype=torch.bfloat16),)


def fisher(kind, measure="FIM", **options):
    """Fisher information, and a product of it with the weights."""

    def build(device):
        import nngeometry.metrics
        import nngeometry.object
        from nngeometry.object import PVector

        model = network(device)
        representation = getattr(nngeometry.object, kind)

        def step(x, y):
            loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=6)
            information = getattr(nngeometry.metrics, measure)(
                model=model, loader=loader, representation=representation, device=device, **options
            )
            w = PVector.from_model(model)
            return information.vTMv(w), information.trace()

        return step, batch(device)

    return build


diagonal_fisher = fisher("PMatDiag", variant="classif_logits")
kronecker_fisher = fisher("PMatKFAC", "FIM_MonteCarlo", trials=2)
eigen_fisher = fisher("PMatEKFAC", variant="classif_logits")


def natural_gradient_training(device):
    from nngeometry.metrics import FIM
    from nngeometry.object import PMatKFAC, PVector

    model = network(device)

    def step(x, y):
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=6)
        information = FIM(model=model, loader=loader, representation=PMatKFAC, device=device)
        model.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        delta = information.solve(PVector.from_model_grad(model), regul=1e-2)
        (-0.1 * delta).add_to_model(model)
        return loss.detach()

    return step, batch(device)


def tangent_kernel(device):
    from nngeometry.gram import GramMatrix

    model = network(device)

    def step(x, y):
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=12)
        return GramMatrix(model=model, loader=loader, function=lambda *d: model(d[0])).to_torch()

    return step, batch(device)


def convolutional(on):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 3),
    ).to(on)


def sparse_training(kind, importance):
    """Training that makes groups of channels small, to prune them later."""

    def build(device):
        import torch_pruning as tp

        model = convolutional(device)
        pruner = getattr(tp.pruner, kind)(
            model,
            torch.randn(1, 3, 8, 8, device=device),
            importance=getattr(tp.importance, importance)(),
            pruning_ratio=0.5,
            ignored_layers=[model[-1]],
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        pruner.update_regularizer()

        def step(images, labels):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            pruner.regularize(model)
            optimizer.step()
            return loss.detach()

        return step, (torch.randn(4, 3, 8, 8, device=device), torch.randint(3, (4,), device=device))

    return build


slimming_training = sparse_training("BNScalePruner", "BNScaleImportance")
group_norm_training = sparse_training("GroupNormPruner", "GroupMagnitudeImportance")
growing_training = sparse_training("GrowingRegPruner", "GroupMagnitudeImportance")


def importances(device):
    import torch_pruning as tp

    model = convolutional(device)
    graph = tp.DependencyGraph().build_dependency(model, example_inputs=torch.randn(1, 3, 8, 8, device=device))
    measure = tp.importance.GroupTaylorImportance()

    def step(images, labels):
        model.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        return [
            measure(group)
            for group in graph.get_all_groups(ignored_layers=[model[-1]], root_module_types=[nn.Conv2d, nn.Linear])
        ]

    return step, (torch.randn(4, 3, 8, 8, device=device), torch.randint(3, (4,), device=device))


def pruning(device):
    import copy

    import torch_pruning as tp

    dense = convolutional(device)

    def step(images):
        model = copy.deepcopy(dense)
        pruner = tp.pruner.BasePruner(
            model,
            images[:1],
            importance=tp.importance.GroupMagnitudeImportance(p=2),
            pruning_ratio=0.5,
            ignored_layers=[model[-1]],
        )
        pruner.step()
        return model(images)

    return step, (torch.randn(4, 3, 8, 8, device=device),)


def trial_training(device):
    """An epoch of two batches."""
    from torchbearer import Trial

    model = network(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x, y):
        trial = Trial(model, optimizer, nn.CrossEntropyLoss(), metrics=["acc", "loss"], verbose=0).to(device)
        trial.with_train_data(x, y, batch_size=6, shuffle=False)
        return trial.run(epochs=1)[0]["loss"]

    return step, batch(device)


def trial_evaluation(device):
    from torchbearer import Trial

    model = network(device)

    def step(x, y):
        trial = Trial(model, criterion=nn.CrossEntropyLoss(), metrics=["acc", "loss"], verbose=0).to(device)
        trial.with_val_data(x, y, batch_size=6, shuffle=False)
        return trial.evaluate()

    return step, (torch.randn(12, 8, device=device), torch.randint(3, (12,), device=device))


def trial_prediction(device):
    from torchbearer import Trial

    trial = Trial(network(device), verbose=0).to(device)
    return lambda x: trial.with_test_data(x, batch_size=6).predict(), (torch.randn(12, 8, device=device),)


def trial_callbacks(device):
    """Clipped gradients, a schedule of the learning rate and early stopping."""
    from torchbearer import Trial
    from torchbearer.callbacks import EarlyStopping, GradientNormClipping, StepLR, TerminateOnNaN

    model = network(device)

    def step(x, y):
        callbacks = [
            GradientNormClipping(1.0),
            StepLR(step_size=1, gamma=0.9),
            EarlyStopping(monitor="loss", patience=2),
            TerminateOnNaN(),
        ]
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        trial = Trial(model, optimizer, nn.CrossEntropyLoss(), metrics=["loss"], callbacks=callbacks, verbose=0)
        trial.to(device).with_train_data(x, y, batch_size=6, shuffle=False)
        return trial.run(epochs=2)[-1]["loss"]

    return step, batch(device)
