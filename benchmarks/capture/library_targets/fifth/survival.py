"""Steps of torchsurv: survival losses and metrics."""

import torch
from torch import nn


def patients(where, n=24):
    generator = torch.Generator().manual_seed(1)
    time = torch.randint(1, 20, (n,), generator=generator).float()
    return (
        torch.randn(n, 5, generator=generator).to(where),
        (torch.rand(n, generator=generator) < 0.6).to(where),
        time.to(where),
    )


def hazards(**options):
    def build(device):
        from torchsurv.loss.cox import neg_partial_log_likelihood

        model = nn.Linear(5, 1).to(device)
        optimizer = torch.optim.Adam(model.parameters())
        strata = options.pop("strata", False)
        x, event, time = patients(device)
        more = {"strata": torch.arange(24, device=device) % 2} if strata else {}

        def step(x, event, time):
            loss = neg_partial_log_likelihood(model(x), event, time, **options, **more)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (x, event, time)

    return build


efron_training = hazards(ties_method="efron")
breslow_training = hazards(ties_method="breslow", reduction="sum")
stratified_training = hazards(strata=True)


def baseline_survival(device):
    from torchsurv.loss.cox import baseline_survival_function, survival_function_cox

    def step(log_hz, event, time):
        base = baseline_survival_function(log_hz, event, time)
        return survival_function_cox(base, log_hz[:4], time[:6].sort().values)

    x, event, time = patients(device)
    return step, (x[:, :1], event, time)


def weibull_training(device):
    from torchsurv.loss.weibull import log_hazard, neg_log_likelihood_weibull, survival_function_weibull

    model = nn.Linear(5, 2).to(device)

    def step(x, event, time):
        params = model(x)
        loss = neg_log_likelihood_weibull(params, event, time)
        loss.backward()
        return loss.detach(), log_hazard(params.detach(), time), survival_function_weibull(params.detach(), time[:5])

    return step, patients(device)


def flexible_training(device):
    """A hazard at evaluation times."""
    from torchsurv.loss.survival import neg_log_likelihood, survival_function

    model = nn.Linear(5, 10).to(device)

    def step(x, event, time, eval_time):
        hazard = model(x)
        loss = neg_log_likelihood(hazard, event, time, eval_time)
        loss.backward()
        return loss.detach(), survival_function(hazard.detach(), time[:4], eval_time)

    return step, (*patients(device), torch.linspace(0, 20, 10, device=device))


def concordance(device):
    from torchsurv.metrics.cindex import ConcordanceIndex
    from torchsurv.stats.ipcw import get_ipcw

    cindex = ConcordanceIndex()

    def step(x, event, time):
        estimate = x[:, 0]
        first = cindex(estimate, event, time), cindex.confidence_interval(), cindex.p_value()
        return first, cindex(estimate, event, time, weight=get_ipcw(event, time), tmax=time.max() - 2)

    return step, patients(device)


def compared_concordance(device):
    from torchsurv.metrics.cindex import ConcordanceIndex

    one, two = ConcordanceIndex(), ConcordanceIndex()

    def step(x, event, time):
        return (
            one(x[:, 0], event, time),
            two(x[:, 1], event, time),
            one.compare(two, method="bootstrap", n_bootstraps=5),
            one.confidence_interval(method="bootstrap", n_bootstraps=5),
        )

    return step, patients(device)


def brier_scores(device):
    from torchsurv.metrics.brier_score import BrierScore

    brier = BrierScore()

    def step(estimate, event, time, new_time):
        return brier(estimate, event, time, new_time), brier.integral(), brier.confidence_interval()

    _x, event, time = patients(device)
    return step, (torch.rand(24, 5, device=device), event, time, torch.tensor([3.0, 6, 9, 12, 15], device=device))


def kaplan_meier(device):
    from torchsurv.stats.kaplan_meier import KaplanMeierEstimator

    estimator = KaplanMeierEstimator()

    def step(x, event, time):
        estimator(event, time)
        first = estimator.predict(time[:5])
        estimator(event, time, censoring_dist=True)
        return first, estimator.predict(time)

    return step, patients(device)
