"""Steps of tntorch, cola, proxtorch, torch_treecrf, pytorch_partial_crf and pyknos."""

import torch
from torch import nn


def train_sums(device):
    """Products and norms of tensors in the tensor-train form."""
    import tntorch as tn

    def step(a, b, c):
        first, second = tn.Tensor([a, b, c]), tn.Tensor([a.cos(), b.cos(), c.cos()])
        return tn.dot(first, second), tn.norm(first - second), tn.mean(first * second)

    return step, tuple(torch.randn(*shape, device=device) for shape in ((1, 8, 3), (3, 8, 3), (3, 8, 1)))


def train_decomposition(device):
    import tntorch as tn

    def step(x):
        return tn.Tensor(x, ranks_tt=4).torch()

    return step, (torch.randn(8, 8, 8, device=device),)


def train_rounding(device):
    import tntorch as tn

    def step(x, y):
        t = tn.Tensor(x, ranks_tt=4) + tn.Tensor(y, ranks_tt=4)
        t.round_tt(eps=1e-6)
        return t[2:5, 3].torch()

    return step, (torch.randn(8, 8, 8, device=device), torch.randn(8, 8, 8, device=device))


def train_tucker(device):
    import tntorch as tn

    def step(x):
        t = tn.Tensor(x, ranks_tucker=3)
        return tn.relative_error(x, t), t.torch()

    return step, (torch.randn(8, 8, 8, device=device),)


def train_cross(device):
    """A tensor that is learned from samples of a function."""
    import tntorch as tn

    def step(x, y, z):
        t = tn.cross(
            function=lambda a, b, c: 1 / (a + b + c), domain=[x, y, z], ranks_tt=3, max_iter=4, val_size=50,
            device=device, verbose=False,
        )  # fmt: skip
        return t.torch()

    return step, tuple(torch.linspace(1, 2, 8, device=device) + i for i in range(3))


def train_fit(device):
    """A gradient step on the cores of a tensor."""
    import tntorch as tn

    t = tn.rand([8, 8, 8], ranks_tt=3, requires_grad=True, device=device)
    optimizer = torch.optim.Adam(t.cores, lr=1e-2)

    def step(x):
        optimizer.zero_grad()
        loss = tn.relative_error(x, t) ** 2 + 1e-3 * tn.norm(t)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(8, 8, 8, device=device),)


def _positive(device, size=16):
    root = torch.randn(size, size, device=device)
    return root @ root.T + size * torch.eye(size, device=device)


def operator_solve(device):
    import cola
    from cola.linalg import CG

    def step(matrix, right):
        A = cola.PSD(cola.ops.Dense(matrix))
        return cola.linalg.inv(A, CG(tol=1e-4, max_iters=20)) @ right

    return step, (_positive(device), torch.randn(16, 2, device=device))


def operator_kronecker(device):
    import cola

    def step(first, second, right):
        A = cola.ops.Kronecker(cola.PSD(cola.ops.Dense(first)), cola.PSD(cola.ops.Dense(second)))
        return cola.linalg.inv(A) @ right, cola.linalg.logdet(A)

    return step, (_positive(device, 4), _positive(device, 6), torch.randn(24, device=device))


def operator_spectrum(device):
    import cola
    from cola.linalg import Lanczos

    def step(matrix):
        values, _vectors = cola.linalg.eig(cola.PSD(cola.ops.Dense(matrix)), 3, "LM", Lanczos(max_iters=16))
        return values

    return step, (_positive(device),)


def operator_trace(device):
    import cola
    from cola.linalg import Hutch

    def step(matrix):
        A = cola.ops.Dense(matrix) @ cola.ops.Diagonal(matrix.diagonal())
        return cola.linalg.trace(A, Hutch(max_iters=20)), cola.linalg.diag(A)

    return step, (_positive(device),)


def operator_root(device):
    import cola
    from cola.linalg import Lanczos

    def step(matrix, right):
        return cola.linalg.sqrt(cola.PSD(cola.ops.Dense(matrix)), Lanczos(max_iters=12)) @ right

    return step, (_positive(device), torch.randn(16, device=device))


def operator_training(device):
    """The log-determinant of a kernel matrix, with gradients of its length scale."""
    import cola

    points = torch.linspace(0, 1, 16, device=device)[:, None]
    scale = nn.Parameter(torch.tensor(0.3, device=device))
    optimizer = torch.optim.Adam([scale], lr=1e-2)

    def step(y):
        optimizer.zero_grad()
        kernel = torch.exp(-((points - points.T) ** 2) / scale**2) + 0.1 * torch.eye(16, device=device)
        A = cola.PSD(cola.ops.Dense(kernel))
        loss = y @ (cola.linalg.inv(A, cola.linalg.Cholesky()) @ y) + cola.linalg.logdet(A, cola.linalg.Cholesky())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(16, device=device),)


def _proximal(device, regularizer):
    """A proximal gradient step on a least-squares problem."""
    matrix, data = torch.randn(20, 12, device=device), torch.randn(20, device=device)

    def step(x):
        x = x - 0.01 * (matrix.T @ (matrix @ x - data))
        x = regularizer.prox(x, 0.01)
        return x, regularizer(x)

    return step, (torch.randn(12, device=device),)


def proximal_groups(device):
    from proxtorch.operators import GroupLasso

    return _proximal(device, GroupLasso(0.5, [4, 4, 4]))


def proximal_fused(device):
    from proxtorch.operators import FusedLasso

    return _proximal(device, FusedLasso(0.5))


def proximal_elastic(device):
    from proxtorch.operators import ElasticNet

    return _proximal(device, ElasticNet(0.5, 0.5))


def proximal_denoising(device):
    from proxtorch.operators import TV_2D

    prox = TV_2D(0.1, max_iter=20)

    def step(image):
        return prox.prox(image, 1.0), prox(image)

    return step, (torch.rand(12, 12, device=device),)


def proximal_rank(device):
    from proxtorch.constraints import L1Ball, Rank
    from proxtorch.operators import NuclearNorm

    norm, rank, ball = NuclearNorm(0.5), Rank(3), L1Ball(2.0)

    def step(x):
        low = norm.prox(x, 0.1)
        return norm(low), rank.prox(x), ball.prox(x.flatten())

    return step, (torch.randn(8, 6, device=device),)


def _tree(device, nodes=5):
    adjacency = torch.zeros(nodes, nodes, device=device)
    adjacency[0, 1] = adjacency[0, 2] = adjacency[2, 3] = adjacency[2, 4] = 1
    return adjacency


def tree_training(device):
    from torch_treecrf import TreeCRF

    model = TreeCRF(8, _tree(device), device=device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(4, 8, device=device), (torch.rand(4, 5, device=device) > 0.5).float())


def tree_marginals(device):
    from torch_treecrf import TreeCRFLayer

    layer = TreeCRFLayer(_tree(device), n_classes=3, device=device)

    def step(emissions):
        with torch.no_grad():
            return layer(emissions)

    return step, (torch.randn(4, 3, 5, device=device),)


def _sequences(device, length=5):
    return torch.randn(3, length, 6, device=device), torch.randint(0, 6, (3, length), device=device)


def chain_partial_training(device):
    from pytorch_partial_crf import PartialCRF

    model = PartialCRF(6).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(emissions, tags):
        optimizer.zero_grad()
        loss = model(emissions, tags)
        loss.backward()
        optimizer.step()
        return loss.detach()

    emissions, tags = _sequences(device)
    tags[1, ::2] = -1
    return step, (emissions, tags)


def chain_training(device):
    from pytorch_partial_crf import CRF

    model = CRF(6).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(emissions, tags):
        optimizer.zero_grad()
        loss = model(emissions, tags)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, _sequences(device)


def chain_decoding(device):
    from pytorch_partial_crf import CRF

    model = CRF(6).to(device)

    def step(emissions, possible):
        with torch.no_grad():
            return model.viterbi_decode(emissions), model.restricted_viterbi_decode(emissions, possible)

    return step, (_sequences(device)[0], (torch.rand(3, 5, 6, device=device) > 0.3).byte())


def chain_marginals(device):
    from pytorch_partial_crf import CRF

    model = CRF(6).to(device)

    def step(emissions):
        with torch.no_grad():
            return model.marginal_probabilities(emissions)

    return step, _sequences(device)[:1]


def chain_soft_training(device):
    from pytorch_partial_crf import MarginalCRF

    model = MarginalCRF(6).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(emissions, tags, mask):
        optimizer.zero_grad()
        loss = model(emissions, tags, mask)
        loss.backward()
        optimizer.step()
        return loss.detach()

    mask = torch.ones(3, 5, dtype=torch.uint8, device=device)
    return step, (_sequences(device)[0], torch.rand(3, 5, 6, device=device).softmax(-1), mask)


def _mixture(device, components=4):
    from pyknos.mdn.mdn import MultivariateGaussianMDN

    hidden = nn.Sequential(nn.Linear(4, 16), nn.ReLU())
    return MultivariateGaussianMDN(
        features=3, context_features=4, hidden_net=hidden, num_components=components, hidden_features=16
    ).to(device)


def mixture_training(device):
    model = _mixture(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x, context):
        optimizer.zero_grad()
        loss = -model.log_prob(x, context).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(8, 3, device=device), torch.randn(8, 4, device=device))


def mixture_samples(device):
    model = _mixture(device)

    def step(context):
        with torch.no_grad():
            return model.sample(5, context)

    return step, (torch.randn(2, 4, device=device),)


def mixture_components(device):
    model = _mixture(device)

    def step(x, context):
        logits, means, precisions, sums, factors = model.get_mixture_components(context)
        return model.sample_mog(6, logits, means, factors), model.log_prob_mog(x, logits, means, precisions, sums)

    return step, (torch.randn(2, 3, device=device), torch.randn(2, 4, device=device))
