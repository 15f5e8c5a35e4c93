"""Training steps of pytorch-metric-learning: losses, miners, memories and proxies."""

import torch
from torch import nn


def batch(device, size=32, width=16, classes=6):
    return torch.randn(size, width, device=device), torch.randint(0, classes, (size,), device=device)


def training(loss_function, miner=None, own_parameters=False):
    """A step that trains a small network, and the loss where it has weights."""

    def build(device):
        network = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).to(device)
        criterion, mine = loss_function().to(device), miner() if miner else None
        parameters = [*network.parameters(), *(criterion.parameters() if own_parameters else ())]
        optimizer = torch.optim.SGD(parameters, lr=0.01)

        def step(data, labels):
            optimizer.zero_grad()
            embeddings = network(data)
            if mine is None:
                loss = criterion(embeddings, labels)
            else:
                loss = criterion(embeddings, labels, mine(embeddings, labels))
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, batch(device)

    return build


def triplet_loss():
    from pytorch_metric_learning import distances, losses, reducers

    return losses.TripletMarginLoss(
        margin=0.2, distance=distances.CosineSimilarity(), reducer=reducers.ThresholdReducer(low=0)
    )


def triplet_miner():
    from pytorch_metric_learning import distances, miners

    return miners.TripletMarginMiner(margin=0.2, distance=distances.CosineSimilarity(), type_of_triplets="semihard")


def similarity_loss():
    from pytorch_metric_learning import losses

    return losses.MultiSimilarityLoss(alpha=2, beta=50, base=1)


def similarity_miner():
    from pytorch_metric_learning import miners

    return miners.MultiSimilarityMiner(epsilon=0.1)


def contrastive_loss():
    from pytorch_metric_learning import losses

    return losses.ContrastiveLoss(pos_margin=0, neg_margin=1)


def hard_miner():
    from pytorch_metric_learning import miners

    return miners.BatchHardMiner()


def angular_margin_loss():
    from pytorch_metric_learning import losses

    return losses.ArcFaceLoss(num_classes=6, embedding_size=8)


def proxy_loss():
    from pytorch_metric_learning import losses

    return losses.ProxyAnchorLoss(num_classes=6, embedding_size=8)


def remembered_loss():
    from pytorch_metric_learning import losses

    return losses.CrossBatchMemory(losses.NTXentLoss(temperature=0.1), embedding_size=8, memory_size=128)


triplet_training = training(triplet_loss, triplet_miner)
similarity_training = training(similarity_loss, similarity_miner)
contrastive_training = training(contrastive_loss, hard_miner)
angular_margin_training = training(angular_margin_loss, own_parameters=True)
proxy_training = training(proxy_loss, own_parameters=True)
remembered_training = training(remembered_loss)


def views_training(device):
    """Self-supervision: two views of each sample are distinguished from the views of all other samples."""
    from pytorch_metric_learning.losses import NTXentLoss, SelfSupervisedLoss

    network = nn.Linear(16, 8).to(device)
    criterion = SelfSupervisedLoss(NTXentLoss(temperature=0.07))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

    def step(one, other):
        optimizer.zero_grad()
        loss = criterion(network(one), network(other))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(16, 16, device=device), torch.randn(16, 16, device=device))
