"""Steps of torchnmf, fast_pytorch_kmeans and diffsort: factorised matrices, clusters, differentiable sorting."""

import torch
from torch import nn


def multiplied_factors(beta, **options):
    """One turn of the multiplicative update."""

    def build(device):
        from torchnmf.nmf import NMF
        from torchnmf.trainer import BetaMu

        net = NMF((12, 10), rank=3).to(device)
        trainer = BetaMu(net.parameters(), beta=beta, **options)

        def step(V):
            def closure():
                trainer.zero_grad()
                return V, net()

            trainer.step(closure)
            return net.W.detach(), net.H.detach()

        return step, (torch.rand(12, 10, device=device) + 0.1,)

    return build


divergence_factors = multiplied_factors(1)
euclidean_factors = multiplied_factors(2, l1_reg=0.01, l2_reg=0.01, orthogonal=0.1)
itakura_factors = multiplied_factors(0)


def fitted_factors(device):
    """The fit of the documentation, of a few iterations."""
    from torchnmf.nmf import NMF, NMFD

    net = NMF((12, 10), rank=3).to(device)
    deconvolved = NMFD((1, 6, 20), rank=2, T=3).to(device)

    def step(V, S):
        net.fit(V, beta=1.5, tol=1e-4, max_iter=12, alpha=0.1, l1_ratio=0.5)
        deconvolved.fit(S, beta=1, max_iter=10)
        return net().detach(), deconvolved().detach()

    return step, (torch.rand(12, 10, device=device) + 0.1, torch.rand(1, 6, 20, device=device) + 0.1)


def sparse_factors(device):
    from torchnmf.metrics import beta_div, sparseness
    from torchnmf.nmf import NMF

    net = NMF((12, 10), rank=3).to(device)

    def step(V):
        net.sparse_fit(V, beta=2, max_iter=4, sW=0.4, sH=0.3)
        return sparseness(net.W.detach()), beta_div(net(), V, beta=0.5).detach()

    return step, (torch.rand(12, 10, device=device) + 0.1,)


def latent_components(device):
    from torchnmf.plca import PLCA, SIPLCA

    net = PLCA((12, 10), rank=3).to(device)
    shifted = SIPLCA((1, 6, 20), rank=2, T=3).to(device)

    def step(V, S):
        turns = net.fit(V, max_iter=8, W_alpha=1.1, H_alpha=1.0)
        shifted.fit(S, max_iter=8)
        return turns, net().detach(), shifted().detach()

    return step, (torch.rand(12, 10, device=device) + 0.1, torch.rand(1, 6, 20, device=device) + 0.1)


def clustered(**options):
    def build(device):
        from fast_pytorch_kmeans import KMeans

        kmeans = KMeans(n_clusters=3, max_iter=6, **options)

        def step(x, y):
            labels = kmeans.fit_predict(x)
            return labels, kmeans.predict(y), kmeans.centroids

        return step, (torch.randn(40, 4, device=device), torch.randn(8, 4, device=device))

    return build


clusters = clustered(mode="euclidean")
cosine_clusters = clustered(mode="cosine", init_method="kmeans++")
batched_clusters = clustered(mode="euclidean", minibatch=10)


def several_clusterings(device):
    from fast_pytorch_kmeans import MultiKMeans

    kmeans = MultiKMeans(n_clusters=2, max_iter=4)

    def step(x):
        return kmeans.fit_predict(x)

    return step, (torch.randn(3, 20, 4, device=device),)


def sorted_training(kind, **options):
    """A network learns scores from the order of sets alone."""

    def build(device):
        from diffsort import DiffSortNet

        score = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
        sorter = DiffSortNet(kind, 4, device=device, **options)
        optimizer = torch.optim.Adam(score.parameters(), lr=1e-3)

        def step(x, order):
            _values, permutation = sorter(score(x).squeeze(-1))
            loss = nn.functional.binary_cross_entropy(permutation.clamp(1e-6, 1 - 1e-6), order)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (torch.randn(6, 4, 5, device=device), torch.eye(4, device=device).expand(6, 4, 4).contiguous())

    return build


bitonic_training = sorted_training("bitonic", steepness=5.0, distribution="logistic")
odd_even_training = sorted_training("odd_even", steepness=10.0, art_lambda=0.25, distribution="logistic_phi")
optimal_sorting_training = sorted_training("odd_even", steepness=8.0, distribution="optimal")
gaussian_sorting_training = sorted_training("bitonic", distribution="gaussian")
