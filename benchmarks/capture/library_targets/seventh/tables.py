"""Steps of coral_pytorch, recsys_metrics, torch_pca and kmeans_pytorch: orders, ranks, components and clusters."""

import torch
from torch import nn


def ordinal_network(device, outputs):
    return nn.Sequential(nn.Linear(10, 16), nn.ReLU(), outputs).to(device)


def ordinal_coral_training(device):
    from coral_pytorch.dataset import levels_from_labelbatch
    from coral_pytorch.layers import CoralLayer
    from coral_pytorch.losses import coral_loss

    model = ordinal_network(device, CoralLayer(size_in=16, num_classes=5))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(features, labels):
        levels = levels_from_labelbatch(labels, num_classes=5).to(device)
        loss = coral_loss(model(features), levels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(12, 10, device=device), torch.randint(5, (12,), device=device))


def ordinal_corn_training(device):
    from coral_pytorch.losses import corn_loss

    model = ordinal_network(device, nn.Linear(16, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(features, labels):
        loss = corn_loss(model(features), labels, 5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(12, 10, device=device), torch.randint(5, (12,), device=device))


def ordinal_evaluation(device):
    """Mean absolute error, as in the tutorials."""
    from coral_pytorch.dataset import corn_label_from_logits, proba_to_label
    from coral_pytorch.layers import CoralLayer

    coral = ordinal_network(device, CoralLayer(size_in=16, num_classes=5))
    corn = ordinal_network(device, nn.Linear(16, 4))

    def step(features, labels):
        with torch.no_grad():
            first = proba_to_label(torch.sigmoid(coral(features))).float()
            second = corn_label_from_logits(corn(features)).float()
        return torch.stack([torch.mean(torch.abs(found - labels)) for found in (first, second)])

    return step, (torch.randn(12, 10, device=device), torch.randint(5, (12,), device=device))


def ordinal_weighted_loss(device):
    from coral_pytorch.losses import CoralLoss, CornLoss

    weights = torch.tensor([1.0, 0.8, 0.6, 0.4], device=device)
    coral, corn = CoralLoss(), CornLoss(num_classes=5)

    def step(logits, levels, labels):
        return coral(logits, levels, importance_weights=weights) + corn(logits, labels)

    levels = (torch.arange(4, device=device) < torch.randint(5, (12, 1), device=device)).float()
    return step, (torch.randn(12, 4, device=device), levels, torch.randint(5, (12,), device=device))


def ranked(on):
    return torch.rand(8, 20, device=on), torch.randint(2, (8, 20), device=on)


def ranking_ndcg(device):
    from recsys_metrics import normalized_dcg

    return lambda preds, target: normalized_dcg(preds, target, k=5), ranked(device)


def ranking_scores(device):
    from recsys_metrics import hit_rate, mean_average_precision, mean_reciprocal_rank, precision, recall

    def step(preds, target):
        scores = (hit_rate, mean_average_precision, mean_reciprocal_rank, precision, recall)
        return [score(preds, target, k=10) for score in scores]

    return step, ranked(device)


def ranking_report(device):
    from recsys_metrics import rank_report

    return lambda preds, target: rank_report(preds, target, k=5), ranked(device)


def ranking_diversity(device):
    from recsys_metrics import catalog_coverage, distributional_coverage, mean_interlist_diversity

    indexes = torch.stack([torch.randperm(40, device=device)[:20] for _ in range(8)])

    def step(preds, indexes):
        return [f(preds, indexes, k=5) for f in (catalog_coverage, distributional_coverage, mean_interlist_diversity)]

    return step, (torch.rand(8, 20, device=device), indexes)


def components(**options):
    def build(device):
        from torch_pca import PCA

        def step(train, test):
            pca = PCA(**options)
            pca.fit(train)
            return pca.inverse_transform(pca.transform(test))

        return step, (torch.randn(40, 6, device=device), torch.randn(10, 6, device=device))

    return build


principal_whitened = components(n_components=3, whiten=True, svd_solver="covariance_eigh")
principal_variance = components(n_components=0.8)
principal_mle = components(n_components="mle")
principal_randomised = components(n_components=3, svd_solver="randomized", random_state=0)


def principal_training(device):
    """The loop of the documentation: components of what a network gives."""
    from torch_pca import PCA

    net = nn.Linear(6, 8).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    pca = PCA(n_components=2, svd_solver="full")

    def step(inputs, targets):
        optimizer.zero_grad()
        out = net(inputs)
        with torch.no_grad():
            pca.fit(out)
        loss = nn.functional.mse_loss(pca.transform(out), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(24, 6, device=device), torch.randn(24, 2, device=device))


def principal_score(device):
    from torch_pca import PCA

    pca = PCA(n_components=3)
    pca.fit(torch.randn(40, 6, device=device))
    return lambda test: (pca.score(test), pca.get_precision()), (torch.randn(10, 6, device=device),)


def clusters(distance):
    def build(device):
        from kmeans_pytorch import kmeans

        def step(x):
            return kmeans(X=x, num_clusters=3, distance=distance, device=device)

        return step, (torch.randn(60, 4, device=device),)

    return build


cluster_euclidean = clusters("euclidean")
cluster_cosine = clusters("cosine")


def cluster_assignment(device):
    from kmeans_pytorch import kmeans_predict

    centres = torch.randn(3, 4, device=device)
    return lambda x: kmeans_predict(x, centres, "euclidean", device=device), (torch.randn(20, 4, device=device),)
