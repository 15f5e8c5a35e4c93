"""Steps of lightly: losses of self-supervised learning, momentum encoders, banks of memory, masked images."""

import torch
from torch import nn


def encoder(where, out=16):
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, out)).to(where)


def views(where, count=2, batch=8):
    return tuple(torch.randn(batch, 3, 4, 4, device=where) for _ in range(count))


def paired(name, **options):
    """A training step on two views of each image."""

    def build(device):
        from lightly import loss as losses
        from lightly.loss.hypersphere_loss import HypersphereLoss

        model = encoder(device)
        criterion = (HypersphereLoss if name == "HypersphereLoss" else getattr(losses, name))(**options).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(one, other):
            loss = criterion(model(one), model(other))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, views(device)

    return build


contrastive_training = paired("NTXentLoss", temperature=0.5)
remembered_training = paired("NTXentLoss", temperature=0.2, memory_bank_size=(32, 16))
redundant_training = paired("BarlowTwinsLoss")
varied_training = paired("VICRegLoss")
decoupled_training = paired("DCLLoss")
weighted_training = paired("DCLWLoss")
correlated_training = paired("TiCoLoss")
spherical_training = paired("HypersphereLoss")
adaptive_temperature_training = paired("MACLLoss")
direct_training = paired("DirectCLRLoss", loss_dim=8)


def clustered_training(device):
    """Prototypes and a queue, several crops."""
    from lightly.loss import SwaVLoss
    from lightly.models.modules import SwaVPrototypes

    model, prototypes = encoder(device), SwaVPrototypes(16, 12).to(device)
    criterion = SwaVLoss(sinkhorn_iterations=3)
    optimizer = torch.optim.SGD([*model.parameters(), *prototypes.parameters()], lr=0.1)
    from lightly.loss.memory_bank import MemoryBankModule

    queue = MemoryBankModule(size=(16, 16)).to(device)

    def step(*crops):
        prototypes.normalize()
        features = [nn.functional.normalize(model(x), dim=1) for x in crops]
        _, kept = queue(features[0].detach(), update=True)
        scores = [prototypes(x) for x in features]
        stored = [prototypes(kept.T)]
        loss = criterion(scores[:2], scores[2:], queue_outputs=[*stored, *stored])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, views(device, 4)


def distilled_training(device):
    """A teacher that follows its student; heads whose last layer is frozen first; a schedule of momentum."""
    from lightly.loss import DINOLoss
    from lightly.models.modules import DINOProjectionHead
    from lightly.models.utils import deactivate_requires_grad, update_momentum
    from lightly.utils.scheduler import cosine_schedule

    student = nn.Sequential(encoder(device), DINOProjectionHead(16, 32, 16, 24, freeze_last_layer=1).to(device))
    teacher = nn.Sequential(encoder(device), DINOProjectionHead(16, 32, 16, 24).to(device))
    deactivate_requires_grad(teacher)
    criterion = DINOLoss(output_dim=24, warmup_teacher_temp_epochs=5).to(device)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)

    def step(*crops):
        update_momentum(student, teacher, m=cosine_schedule(3, 10, 0.996, 1))
        taught, learnt = [teacher(x) for x in crops[:2]], [student(x) for x in crops]
        loss = criterion(taught, learnt, epoch=2)
        optimizer.zero_grad()
        loss.backward()
        student[1].cancel_last_layer_gradients(current_epoch=0)
        optimizer.step()
        return loss.detach()

    return step, views(device, 4)


def patches_training(device):
    """Masked patches of images: iBOT's and KoLeo's losses."""
    from lightly.loss import IBOTPatchLoss, KoLeoLoss
    from lightly.models.utils import random_block_mask

    student, teacher = nn.Linear(8, 24).to(device), nn.Linear(8, 24).to(device)
    criterion, spread = IBOTPatchLoss(output_dim=24).to(device), KoLeoLoss()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)

    def step(tokens):
        mask = random_block_mask(size=(4, 14, 14), device=device)
        chosen = tokens.flatten(1, 2)[mask.flatten(1)]
        with torch.no_grad():
            taught = teacher(chosen)
        loss = criterion(taught, student(chosen), mask=mask) + 0.1 * spread(student(tokens.mean((1, 2))))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(4, 14, 14, 8, device=device),)


def masked_siamese_training(device):
    from lightly.loss import MSNLoss

    model = encoder(device)
    prototypes = nn.Linear(16, 10, bias=False).to(device).weight
    criterion = MSNLoss(sinkhorn_iterations=3)
    optimizer = torch.optim.SGD([*model.parameters(), prototypes], lr=0.1)

    def step(one, other):
        loss = criterion(model(one), model(other).detach(), prototypes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, views(device)


def masked_autoencoding(device):
    """Masks some tokens, keeps the others, and writes them into a full sequence again."""
    from lightly.models import utils

    def step(tokens):
        keep, mask = utils.random_token_mask((4, 17), mask_ratio=0.75, device=device)
        kept = utils.get_at_index(tokens, keep)
        full = utils.repeat_token(torch.zeros(1, 1, 8, device=device), (4, 17))
        full = utils.set_at_index(full, keep, kept)
        patches = utils.patchify(torch.rand(4, 3, 16, 16, device=device), 4)
        return full, utils.get_at_index(patches, mask - 1)

    return step, (torch.randn(4, 17, 8, device=device),)


def nearest_neighbours_training(device):
    """Positives that a bank of memory provides, with LARS."""
    from lightly.loss import NegativeCosineSimilarity
    from lightly.models.modules import NNMemoryBankModule, SimSiamPredictionHead
    from lightly.utils.lars import LARS

    model, head = encoder(device), SimSiamPredictionHead(16, 8, 16).to(device)
    bank, criterion = NNMemoryBankModule(size=(32, 16)).to(device), NegativeCosineSimilarity()
    optimizer = LARS([*model.parameters(), *head.parameters()], lr=0.1, momentum=0.9, weight_decay=1e-4)

    def step(one, other):
        z0, z1 = model(one), model(other)
        p0, p1 = head(z0), head(z1)
        loss = 0.5 * (criterion(bank(z0.detach(), update=False), p1) + criterion(bank(z1.detach(), update=True), p0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, views(device)


def local_features_training(device):
    from lightly.loss import VICRegLLoss

    criterion = VICRegLLoss(num_matches=(4, 2))
    model = nn.Conv2d(3, 8, 3, stride=4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(one, other, grid):
        maps = [model(x).permute(0, 2, 3, 1) for x in (one, other)]
        pooled = [m.mean((1, 2)) for m in maps]
        loss = criterion(
            global_view_features=[(p, m) for p, m in zip(pooled, maps, strict=False)],
            global_view_grids=[grid, grid],
            local_view_features=[(pooled[0], maps[0])],
            local_view_grids=[grid],
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = torch.randn(4, 3, 16, 16, device=device)
    return step, (x, x + 0.1, torch.rand(4, 4, 4, 2, device=device))


def whitened_training(device):
    from lightly.loss import WMSELoss

    model = encoder(device, 8)
    criterion = WMSELoss(embedding_dim=8, w_size=16, num_samples=2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(one, other):
        loss = criterion(torch.cat([model(one), model(other)]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, views(device, batch=16)


def neighbours_scored(device):
    """Classes of the nearest neighbours, as benchmarks score embeddings."""
    from lightly.utils.benchmarking import knn_predict
    from lightly.utils.benchmarking.topk import mean_topk_accuracy

    def step(x, bank, labels, y):
        classes = knn_predict(x, bank, labels, num_classes=5, knn_k=4)
        return classes, mean_topk_accuracy(classes, y, k=(1, 2))

    return step, (
        torch.randn(8, 16, device=device),
        torch.randn(16, 32, device=device),
        torch.randint(0, 5, (32,), device=device),
        torch.randint(0, 5, (8,), device=device),
    )
