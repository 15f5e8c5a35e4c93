"""Steps of torcheval: metrics that are updated and computed, and functions."""

import torch


def updated(*names, task="multiclass", weights=False, **options):
    """Metrics of one task in two updates and a value."""

    def build(device):
        from torcheval import metrics

        made = [getattr(metrics, name)(device=device, **options.get(name, {})) for name in names]

        def step(batches):
            for one in made:
                one.reset()
                for batch in batches:
                    one.update(*batch)
            return [one.compute() for one in made]

        def batch():
            if task == "multiclass":
                return torch.rand(16, 4, device=device).softmax(-1), torch.randint(0, 4, (16,), device=device)
            if task == "binary":
                return torch.rand(16, device=device), torch.randint(0, 2, (16,), device=device)
            if task == "multilabel":
                return torch.rand(16, 3, device=device), torch.randint(0, 2, (16, 3), device=device)
            if task == "regression":
                return torch.randn(16, device=device), torch.randn(16, device=device)
            return torch.rand(16, 5, device=device), torch.randint(0, 5, (16,), device=device)

        return step, ([batch(), batch()],)

    return build


class_metrics = updated(
    "MulticlassAccuracy",
    "MulticlassF1Score",
    "MulticlassPrecision",
    "MulticlassRecall",
    "MulticlassConfusionMatrix",
    MulticlassAccuracy={"average": "macro", "num_classes": 4, "k": 2},
    MulticlassF1Score={"average": "weighted", "num_classes": 4},
    MulticlassPrecision={"average": "macro", "num_classes": 4},
    MulticlassRecall={"average": None, "num_classes": 4},
    MulticlassConfusionMatrix={"num_classes": 4, "normalize": "true"},
)
class_curves = updated(
    "MulticlassAUROC",
    "MulticlassAUPRC",
    "MulticlassPrecisionRecallCurve",
    "MulticlassBinnedPrecisionRecallCurve",
    MulticlassAUROC={"num_classes": 4},
    MulticlassAUPRC={"num_classes": 4},
    MulticlassPrecisionRecallCurve={"num_classes": 4},
    MulticlassBinnedPrecisionRecallCurve={"num_classes": 4, "threshold": 10},
)
binary_curves = updated(
    "BinaryAUROC",
    "BinaryAUPRC",
    "BinaryPrecisionRecallCurve",
    "BinaryRecallAtFixedPrecision",
    "BinaryBinnedAUROC",
    task="binary",
    BinaryRecallAtFixedPrecision={"min_precision": 0.5},
    BinaryBinnedAUROC={"threshold": 10},
)
windowed_metrics = updated(
    "WindowedBinaryAUROC", "WindowedClickThroughRate", task="binary", WindowedClickThroughRate={"max_num_updates": 3}
)
label_metrics = updated(
    "MultilabelAccuracy",
    "MultilabelAUPRC",
    "TopKMultilabelAccuracy",
    "MultilabelPrecisionRecallCurve",
    "MultilabelRecallAtFixedPrecision",
    task="multilabel",
    MultilabelAccuracy={"criteria": "hamming"},
    MultilabelAUPRC={"num_labels": 3},
    TopKMultilabelAccuracy={"k": 2, "criteria": "overlap"},
    MultilabelPrecisionRecallCurve={"num_labels": 3},
    MultilabelRecallAtFixedPrecision={"num_labels": 3, "min_precision": 0.4},
)
regression_metrics = updated(
    "MeanSquaredError", "R2Score", task="regression", R2Score={"multioutput": "uniform_average"}
)
ranking_metrics = updated("HitRate", "ReciprocalRank", task="ranking", HitRate={"k": 2}, ReciprocalRank={"k": 3})


def binary_scores(device):
    from torcheval import metrics

    made = [
        metrics.BinaryAccuracy(threshold=0.4, device=device),
        metrics.BinaryF1Score(device=device),
        metrics.BinaryPrecision(device=device),
        metrics.BinaryRecall(device=device),
        metrics.BinaryConfusionMatrix(device=device),
    ]
    entropy = metrics.BinaryNormalizedEntropy(device=device)

    def step(scores, labels):
        for one in [*made, entropy]:
            one.update(scores, labels.to(scores.dtype) if one is entropy else labels)
        return [one.compute() for one in [*made, entropy]]

    return step, (torch.rand(16, device=device), torch.randint(0, 2, (16,), device=device))


def aggregated_values(device):
    from torcheval import metrics

    mean, total, low, high, cat, auc, throughput = (
        getattr(metrics, name)(device=device) for name in ("Mean", "Sum", "Min", "Max", "Cat", "AUC", "Throughput")
    )

    def step(x, weights):
        mean.update(x, weight=weights)
        total.update(x, weight=2.0)
        low.update(x)
        high.update(x)
        cat.reset()
        cat.update(x)
        auc.reset()
        auc.update(x.sort().values, weights)
        throughput.update(16, 0.5)
        return [one.compute() for one in (mean, total, low, high, cat, auc, throughput)]

    return step, (torch.rand(16, device=device), torch.rand(16, device=device))


def text_metrics(device):
    from torcheval import metrics

    perplexity, errors = metrics.Perplexity(ignore_index=-100, device=device), metrics.WordErrorRate(device=device)
    kept = metrics.WordInformationPreserved(device=device)

    def step(logits, words):
        perplexity.update(logits, words)
        kept.update(["hello there world"], ["hello world"])
        errors.update(["hello there world"], ["hello world"])
        return perplexity.compute(), kept.compute(), errors.compute()

    words = torch.randint(0, 6, (2, 5), device=device)
    words[0, 0] = -100
    return step, (torch.randn(2, 5, 6, device=device), words)


def picture_metrics(device):
    from torcheval import metrics

    noise = metrics.PeakSignalNoiseRatio(device=device)
    fixed = metrics.PeakSignalNoiseRatio(data_range=1.0, device=device)

    def step(x, y):
        noise.update(x, y)
        fixed.update(x, y)
        return noise.compute(), fixed.compute()

    return step, (torch.rand(2, 3, 16, 16, device=device), torch.rand(2, 3, 16, 16, device=device))


def metric_functions(device):
    from torcheval.metrics import functional as F

    def step(scores, labels, binary):
        return (
            F.multiclass_accuracy(scores, labels, average=None, num_classes=4),
            F.multiclass_f1_score(scores, labels, average="macro", num_classes=4),
            F.binary_auroc(scores[:, 0], binary, weight=scores[:, 1]),
            F.binary_auprc(scores[:, 0], binary),
            F.retrieval_precision(scores[:, 0], binary, k=3),
            F.frequency_at_k(scores[:, 0], k=0.5),
            F.num_collisions(labels),
            F.click_through_rate(binary),
            F.weighted_calibration(scores[:, 0], binary.float()),
            F.topk_multilabel_accuracy(scores, (scores > 0.5).long(), k=2),
        )

    return step, (
        torch.rand(16, 4, device=device),
        torch.randint(0, 4, (16,), device=device),
        torch.randint(0, 2, (16,), device=device),
    )


def merged_metrics(device):
    """Merges the metrics of two processes, and loads the merged state into the second metric."""
    from torcheval import metrics

    one, two = (
        metrics.MulticlassAUROC(num_classes=4, device=device),
        metrics.MulticlassAUROC(num_classes=4, device=device),
    )

    def step(scores, labels):
        one.reset()
        two.reset()
        one.update(scores, labels)
        two.update(scores.flip(0), labels)
        one.merge_state([two])
        two.load_state_dict(one.state_dict())
        return one.compute(), two.to(scores.device).compute()

    return step, (torch.rand(16, 4, device=device), torch.randint(0, 4, (16,), device=device))
