"""Steps of easyfsl, pytorch_ood and libauc: few labels, inputs of no known class, losses over ranks."""

import torch
from torch import nn


def told_from_few(name, train=False, **options):
    """Processes a support set and classifies queries. With `train`, runs a step of episodic training."""

    def build(device):
        from easyfsl import methods

        backbone = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU())
        if name in ("RelationNetworks", "MatchingNetworks"):
            options.setdefault("feature_dimension", 8)
        if name == "RelationNetworks":
            backbone = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Upsample(size=(5, 5)))
        if name == "FEAT":
            options["attention_module"] = nn.Identity()
        model = getattr(methods, name)(backbone, **options).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

        def step(support, labels, queries, answers):
            if not train:
                model.process_support_set(support, labels)
                return model(queries).detach()
            optimizer.zero_grad()
            model.process_support_set(support, labels)
            loss = nn.functional.cross_entropy(model(queries), answers)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (
            torch.randn(6, 3, 2, 2, device=device),
            torch.arange(3, device=device).repeat_interleave(2),
            torch.randn(5, 3, 2, 2, device=device),
            torch.randint(0, 3, (5,), device=device),
        )

    return build


prototypes_training = told_from_few("PrototypicalNetworks", train=True)
matched_training = told_from_few("MatchingNetworks", train=True)
related_training = told_from_few("RelationNetworks", train=True)
simple_shots = told_from_few("SimpleShot", feature_normalization=2.0)
rectified_shots = told_from_few("BDCSPN")
laplacian_shots = told_from_few("LaplacianShot", inference_steps=3, knn=2)
finetuned_shots = told_from_few("Finetune", fine_tuning_steps=2)
informed_shots = told_from_few("TIM", fine_tuning_steps=2)
transported_shots = told_from_few("PTMAP", fine_tuning_steps=2)


def outlier_scores(*names):
    """Scores from logits alone."""

    def build(device):
        from pytorch_ood import detector

        model = nn.Linear(6, 4).to(device)
        made = [getattr(detector, name)(model) for name in names]

        def step(x):
            with torch.no_grad():
                return [one.predict(x) for one in made]

        return step, (torch.randn(8, 6, device=device),)

    return build


logit_scores = outlier_scores("EnergyBased", "Entropy", "MaxLogit", "MaxSoftmax", "GEN")


def feature_scores(device):
    from pytorch_ood.detector import RMD, SHE, Mahalanobis

    encoder, head = nn.Linear(6, 4).to(device), nn.Linear(4, 3).to(device)
    labels = torch.arange(3, device=device).repeat(10)
    features = torch.randn(30, 4, device=device)
    made = [Mahalanobis(encoder), RMD(encoder), SHE(encoder, head)]
    for one in made[:2]:
        one.fit_features(features, labels)
    with torch.no_grad():
        made[2].fit_features(features, head(features).argmax(1))

    def step(x):
        with torch.no_grad():
            return [one.predict(x) for one in made]

    return step, (torch.randn(8, 6, device=device),)


def fitted_detectors(device):
    """The fit of detectors on the features of a batch."""
    from pytorch_ood.detector import KLMatching, Mahalanobis, ViM

    head = nn.Linear(4, 3).to(device)
    made = [Mahalanobis(None), ViM(None, d=2, w=head.weight.detach(), b=head.bias.detach())]
    matching = KLMatching(None)

    def step(features, labels):
        with torch.no_grad():
            for one in made:
                one.fit_features(features, labels)
            matching.fit_logits(head(features), labels)
            return [one.predict_features(features) for one in made], matching.predict_logits(head(features))

    return step, (torch.randn(30, 4, device=device), torch.arange(3, device=device).repeat(10))


def perturbed_scores(device):
    from pytorch_ood.detector import MCD, ODIN

    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)).to(device)
    odin, dropped = ODIN(model, eps=0.01, temperature=100.0), MCD(model, samples=3, mode="mean")

    def step(x):
        return odin.predict(x), dropped.predict(x)

    return step, (torch.randn(8, 6, device=device),)


def shaped_scores(device):
    from pytorch_ood.detector import ASH, RankFeat, ReAct

    backbone = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()).to(device)
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)).to(device)
    made = [ASH(backbone, head, variant=name) for name in ("ash-s", "ash-b", "ash-p")]
    made += [ReAct(backbone, head, threshold=0.5), RankFeat(backbone, head)]

    def step(x):
        with torch.no_grad():
            return [one.predict(x) for one in made]

    return step, (torch.randn(4, 1, 6, 6, device=device),)


def outlier_trained(name, kind="logits", **options):
    """A training step in which some targets are negative: of no known class."""

    def build(device):
        from pytorch_ood import loss as losses

        model = nn.Linear(6, 4).to(device)
        criterion = getattr(losses, name)(**options).to(device)
        optimizer = torch.optim.SGD([*model.parameters(), *criterion.parameters()], lr=1e-2)

        def step(x, y):
            z = model(x)
            if kind == "distance":
                loss = criterion(criterion.distance(z), y)
            elif kind == "features":
                loss = criterion(z, z, y)
            else:
                loss = criterion(z, y)
            loss = loss.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (
            torch.randn(8, 6, device=device),
            torch.tensor([0, 1, 2, 3, 0, 1, -1, -1], device=device),
        )

    return build


exposed_training = outlier_trained("OutlierExposureLoss", alpha=0.5)
energy_training = outlier_trained("EnergyRegularizedLoss")
open_set_training = outlier_trained("EntropicOpenSetLoss")
objectosphere_training = outlier_trained("ObjectosphereLoss", kind="features")
anchored_training = outlier_trained("CACLoss", kind="distance", n_classes=4, magnitude=2.0)
centred_training = outlier_trained("CenterLoss", kind="distance", n_classes=4, n_dim=4)
described_training = outlier_trained("DeepSADLoss", n_dim=4)


def outlier_metrics(device):
    from pytorch_ood.metrics import OODMetrics

    metrics = OODMetrics()

    def step(scores, labels):
        metrics.reset()
        metrics.update(scores[:4], labels[:4])
        metrics.update(scores[4:], labels[4:])
        return metrics.compute()

    return step, (torch.rand(12, device=device), torch.tensor([0, 1, -1, 2, -1, 0] * 2, device=device))


def ranked(loss_name, optimizer_name="SGD", indexed=False, takes_loss=False, loss_options=None, **options):
    """A training step of a score whose rank counts."""

    def build(device):
        from libauc import losses, optimizers

        model = nn.Sequential(nn.Linear(6, 8), nn.ELU(), nn.Linear(8, 1)).to(device)
        criterion = getattr(losses, loss_name)(**{"device": device, **(loss_options or {})})
        more = {"loss_fn": criterion} if takes_loss else {}
        optimizer = getattr(optimizers, optimizer_name)(
            model.parameters(), verbose=False, device=device, **more, **options
        )

        def step(x, y, index):
            scores = torch.sigmoid(model(x))
            loss = criterion(scores, y, index) if indexed else criterion(scores, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        labels = torch.tensor([[1.0], [0.0], [0.0], [1.0], [0.0], [1.0], [0.0], [0.0]], device=device)
        return step, (
            torch.randn(8, 6, device=device),
            labels,
            torch.tensor([0, 8, 9, 1, 10, 2, 11, 12], device=device),
        )

    return build


margin_training = ranked("AUCMLoss", "PESG", takes_loss=True, lr=0.1, momentum=0.9)
composed_training = ranked("CompositionalAUCLoss", "PDSCA", takes_loss=True, lr=0.1)
precision_training = ranked("AveragePrecisionLoss", "SOAP", indexed=True, loss_options={"data_len": 20}, lr=1e-3)
partial_training = ranked("pAUC_DRO_Loss", "SOPAs", indexed=True, loss_options={"data_len": 20}, lr=1e-3)
risk_training = ranked(
    "pAUC_CVaR_Loss", "SOPA", indexed=True, loss_options={"data_len": 20, "pos_len": 4, "num_neg": 5}, lr=1e-3
)
two_way_training = ranked("tpAUC_KL_Loss", "SOTAs", indexed=True, loss_options={"data_len": 20}, lr=1e-3)


def contrasted_training(device):
    """Global contrastive learning of two views."""
    from libauc.losses import GCLoss
    from libauc.optimizers import SogCLR

    model = nn.Linear(6, 4).to(device)
    criterion = GCLoss("unimodal", N=20, tau=0.3, gamma=0.9, device=device)
    optimizer = SogCLR(model.parameters(), lr=0.1, mode="lars", verbose=False, device=device)

    def step(one, two, index):
        loss = criterion(model(one), model(two), index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (
        torch.randn(4, 6, device=device),
        torch.randn(4, 6, device=device),
        torch.tensor([3, 7, 1, 9]),
    )
