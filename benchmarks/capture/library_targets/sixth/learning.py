"""Steps of rsl_rl, torchfm, torchdr and torchsparsegradutils: policies, click rates, embeddings, sparse systems."""

import torch
from torch import nn


def robot(device, envs=4):
    """Observations of robots that walk nowhere."""
    from tensordict import TensorDict

    return TensorDict(
        {"policy": torch.randn(envs, 5, device=device), "privileged": torch.randn(envs, 3, device=device)},
        batch_size=[envs],
        device=device,
    )


def policy_update(recurrent=False, distilled=False, **options):
    """A rollout of four turns, returns and an update."""

    def build(device):
        from rsl_rl.algorithms import PPO, Distillation
        from rsl_rl.models import MLPModel, RNNModel
        from rsl_rl.storage import RolloutStorage

        obs = robot(device)
        groups = {"actor": ["policy"], "critic": ["policy", "privileged"]}
        groups |= {"student": ["policy"], "teacher": ["policy", "privileged"]}
        model = RNNModel if recurrent else MLPModel
        more = {"rnn_type": "gru", "rnn_hidden_dim": 8} if recurrent else {}
        noise = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "scalar"}

        def made(group, out, **distribution):
            return model(obs, groups, group, out, hidden_dims=[8], obs_normalization=True, **distribution, **more).to(
                device
            )

        kind = "distillation" if distilled else "rl"
        storage = RolloutStorage(kind, 4, 4, obs, [2], device=str(device))
        if distilled:
            algorithm = Distillation(
                made("student", 2, distribution_cfg=noise),
                made("teacher", 2),
                storage,
                num_learning_epochs=1,
                gradient_length=2,
                device=str(device),
            )
        else:
            algorithm = PPO(
                made("actor", 2, distribution_cfg=noise),
                made("critic", 1),
                storage,
                num_learning_epochs=2,
                num_mini_batches=2,
                device=str(device),
                **options,
            )
        algorithm.train_mode()

        def step():
            now = robot(device)
            with torch.inference_mode():
                for _ in range(4):
                    actions = algorithm.act(now)
                    now = robot(device)
                    dones = torch.rand(4, device=device) < 0.2
                    extras = {"time_outs": torch.zeros(4, device=device)}
                    algorithm.process_env_step(now, -actions.square().sum(-1), dones, extras)
                algorithm.compute_returns(now)
            return algorithm.update()

        return step, ()

    return build


proximal_training = policy_update()
recurrent_proximal_training = policy_update(recurrent=True, schedule="fixed")
normalised_proximal_training = policy_update(
    normalize_advantage_per_mini_batch=True, use_clipped_value_loss=False, max_grad_norm=0.5
)
distilled_policy_training = policy_update(distilled=True)


def clicked(name, *arguments):
    def build(device):
        import importlib

        file, _, kind = name.rpartition(".")
        model = getattr(importlib.import_module(f"torchfm.model.{file}"), kind)([5, 7, 3], *arguments).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-6)

        def step(fields, target):
            loss = nn.functional.binary_cross_entropy(model(fields), target)
            model.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        fields = torch.stack([torch.randint(0, n, (8,), device=device) for n in (5, 7, 3)], dim=1)
        return step, (fields, torch.randint(0, 2, (8,), device=device).float())

    return build


factorised_clicks_training = clicked("dfm.DeepFactorizationMachineModel", 4, (8,), 0.2)
field_aware_clicks_training = clicked("fnfm.FieldAwareNeuralFactorizationMachineModel", 4, (8,), (0.2, 0.2))
attentive_clicks_training = clicked("afi.AutomaticFeatureInteractionModel", 4, 8, 2, 2, (8,), (0.1, 0.1, 0.1))
compressed_clicks_training = clicked("xdfm.ExtremeDeepFactorizationMachineModel", 4, (8,), 0.2, (6, 6))
product_clicks_training = clicked("pnn.ProductNeuralNetworkModel", 4, (8,), 0.2, "outer")


def reduced(name, **options):
    """An embedding of points in the plane, of a few iterations."""

    def build(device):
        import torchdr

        method = getattr(torchdr, name)(n_components=2, device=str(device), random_state=0, **options)

        def step(x):
            return method.fit_transform(x)

        return step, (torch.randn(80, 5, device=device),)

    return build


principal_embedding = reduced("PCA")
neighbour_embedding = reduced("TSNE", perplexity=5, max_iter=4)
manifold_embedding = reduced("UMAP", backend=None, n_neighbors=5, max_iter=4)
contrasted_embedding = reduced("InfoTSNE", backend=None, perplexity=5, max_iter=4, n_negatives=4)
visual_embedding = reduced("LargeVis", backend=None, perplexity=5, max_iter=4, n_negatives=4)
pairwise_embedding = reduced("PACMAP", backend=None, n_neighbors=4, max_iter=4)


def affinities(device):
    import torchdr

    made = [
        torchdr.EntropicAffinity(perplexity=5, max_iter=6, sparsity=False, device=str(device)),
        torchdr.SinkhornAffinity(eps=1.0, max_iter=6, device=str(device)),
        torchdr.SelfTuningAffinity(K=4, device=str(device)),
        torchdr.SymmetricEntropicAffinity(perplexity=5, max_iter=4, device=str(device)),
    ]

    def step(x):
        return [one(x) for one in made]

    return step, (torch.randn(20, 4, device=device),)


def sparse_product_training(device):
    """The product with a sparse matrix, whose gradient stays sparse."""
    from torchsparsegradutils import sparse_mm
    from torchsparsegradutils.utils import rand_sparse

    matrix = rand_sparse((6, 6), 12, torch.sparse_csr, device=device).requires_grad_()

    def step(dense):
        matrix.grad = None
        loss = sparse_mm(matrix, dense).square().sum()
        loss.backward()
        return loss.detach()

    return step, (torch.randn(6, 4, device=device),)


def triangular_training(device):
    from torchsparsegradutils import sparse_triangular_solve
    from torchsparsegradutils.utils import rand_sparse_tri

    matrix = rand_sparse_tri((6, 6), 14, torch.sparse_csr, upper=False, device=device).requires_grad_()

    def step(b):
        matrix.grad = None
        x = sparse_triangular_solve(matrix, b, upper=False)
        x.square().sum().backward()
        return x.detach()

    return step, (torch.randn(6, 2, device=device),)


def iterated_solve(name):
    """A linear system by an iteration, and its gradient."""

    def build(device):
        from torchsparsegradutils import sparse_generic_solve
        from torchsparsegradutils.utils import bicgstab, linear_cg, minres

        solver = {"linear_cg": linear_cg, "bicgstab": bicgstab, "minres": minres}[name]
        root = torch.randn(6, 6, device=device, dtype=torch.double)
        matrix = (root @ root.T + 6 * torch.eye(6, device=device, dtype=torch.double)).to_sparse_csr().requires_grad_()

        def step(b):
            matrix.grad = None
            x = sparse_generic_solve(matrix, b, solve=solver)
            x.square().sum().backward()
            return x.detach()

        return step, (torch.randn(6, 2, device=device, dtype=torch.double),)

    return build


conjugate_solve_training = iterated_solve("linear_cg")
stabilised_solve_training = iterated_solve("bicgstab")
residual_solve_training = iterated_solve("minres")


def sparse_normal(device):
    """Samples of a normal distribution whose covariance has a sparse factor; pooled sums over sparse entries."""
    from torchsparsegradutils import sparse_logsumexp
    from torchsparsegradutils.distributions import SparseMultivariateNormal
    from torchsparsegradutils.utils import rand_sparse, rand_sparse_tri

    strict = rand_sparse_tri((5, 5), 6, torch.sparse_coo, upper=False, strict=True, device=device)
    table = rand_sparse((5, 5), 9, torch.sparse_coo, device=device)

    def step(loc, diagonal):
        normal = SparseMultivariateNormal(loc, diagonal, scale_tril=strict)
        return normal.rsample((3,)), sparse_logsumexp(table, dim=1)

    return step, (torch.randn(5, device=device), torch.rand(5, device=device) + 0.5)
