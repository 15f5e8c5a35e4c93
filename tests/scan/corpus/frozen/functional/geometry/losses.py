import torch


def masked_mean(values, mask):
    return values[mask > 0].mean()  # guilty: masked_average GS202


# quiet: masked_average_where
def masked_mean_where(values, mask):
    kept = mask > 0
    return torch.where(kept, values, 0.0).sum() / kept.sum().clamp(min=1)


def hard_negatives(loss, positive, ratio=2):
    count = ratio * int(positive.sum())  # guilty: negative_count GS101
    return loss.masked_fill(positive, 0.0).topk(min(count, loss.numel())).values.sum()


def triplets(distance):
    pairs = torch.combinations(torch.arange(len(distance), device=distance.device))  # guilty: pair_list GS201|GS106
    return distance[pairs[:, 0], pairs[:, 1]].relu()


# quiet: pair_grid
def pairwise(distance):
    n = len(distance)
    rows = torch.arange(n, device=distance.device)
    return torch.where(rows[:, None] < rows, distance.relu(), 0.0)


def weighted(losses, weights=(1.0, 0.5, 0.25, 2.0)):
    return losses @ losses.new_tensor(weights)  # guilty: loss_weights GS301


# quiet: loss_weights_python
def weighted_python(losses, weights=(1.0, 0.5, 0.25, 2.0)):
    return sum(weight * loss for weight, loss in zip(weights, losses.unbind(-1), strict=True))
