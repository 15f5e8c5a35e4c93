"""Find the constructors and methods of torch.distributions that wait for the GPU. graphsafe is not used.

Each method is called once before it is watched, so that waits of only the first call are not counted. The op table and
rules/libraries.yaml are based on the results in benchmarks/data/distribution_waits.json (torch 2.11 on an H200).

    python benchmarks/capture/distribution_waits.py OUT.json  # on a machine with a GPU; ten seconds
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributions as D


def row(*values: float) -> torch.Tensor:
    return torch.tensor(values, device="cuda:0")


positive, real, unit = row(0.5, 1.5, 2.0), row(-0.5, 0.1, 0.7), row(0.2, 0.3, 0.5)
low, high, identity = row(-3.0, -3.0, -3.0), row(3.0, 3.0, 3.0), torch.eye(3, device="cuda:0")

MADE = {
    "Normal": lambda: D.Normal(real, positive),
    "LogNormal": lambda: D.LogNormal(real, positive),
    "Laplace": lambda: D.Laplace(real, positive),
    "Cauchy": lambda: D.Cauchy(real, positive),
    "HalfCauchy": lambda: D.HalfCauchy(positive),
    "HalfNormal": lambda: D.HalfNormal(positive),
    "Gumbel": lambda: D.Gumbel(real, positive),
    "Gamma": lambda: D.Gamma(positive, positive),
    "InverseGamma": lambda: D.InverseGamma(positive, positive),
    "Exponential": lambda: D.Exponential(positive),
    "Chi2": lambda: D.Chi2(positive),
    "StudentT": lambda: D.StudentT(positive),
    "FisherSnedecor": lambda: D.FisherSnedecor(positive, positive),
    "Beta": lambda: D.Beta(positive, positive),
    "Dirichlet": lambda: D.Dirichlet(positive),
    "Kumaraswamy": lambda: D.Kumaraswamy(positive, positive),
    "Pareto": lambda: D.Pareto(positive, positive),
    "Weibull": lambda: D.Weibull(positive, positive),
    "VonMises": lambda: D.VonMises(real, positive),
    "Uniform": lambda: D.Uniform(low, high),
    "Bernoulli": lambda: D.Bernoulli(unit),
    "BernoulliLogits": lambda: D.Bernoulli(logits=real),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(unit),
    "Binomial": lambda: D.Binomial(3, unit),
    "BinomialTensor": lambda: D.Binomial(row(3.0, 4.0, 5.0), unit),
    "NegativeBinomial": lambda: D.NegativeBinomial(positive, unit),
    "Geometric": lambda: D.Geometric(unit),
    "Poisson": lambda: D.Poisson(positive),
    "Categorical": lambda: D.Categorical(unit),
    "CategoricalLogits": lambda: D.Categorical(logits=real),
    "OneHotCategorical": lambda: D.OneHotCategorical(unit),
    "OneHotCategoricalStraightThrough": lambda: D.OneHotCategoricalStraightThrough(unit),
    "Multinomial": lambda: D.Multinomial(3, unit),
    "RelaxedBernoulli": lambda: D.RelaxedBernoulli(row(0.5), unit),
    "RelaxedOneHotCategorical": lambda: D.RelaxedOneHotCategorical(row(0.5), unit),
    "MultivariateNormal": lambda: D.MultivariateNormal(real, identity),
    "MultivariateNormalTril": lambda: D.MultivariateNormal(real, scale_tril=identity),
    "MultivariateNormalPrecision": lambda: D.MultivariateNormal(real, precision_matrix=identity),
    "LowRankMultivariateNormal": lambda: D.LowRankMultivariateNormal(real, identity[:, :2], positive),
    "Wishart": lambda: D.Wishart(row(4.0)[0], identity),
    "LKJCholesky": lambda: D.LKJCholesky(3, row(1.0)[0]),
    "LogisticNormal": lambda: D.LogisticNormal(real, positive),
    "Independent": lambda: D.Independent(D.Normal(real, positive), 1),
    "MixtureSameFamily": lambda: D.MixtureSameFamily(D.Categorical(unit), D.Normal(real, positive)),
    "TransformedDistribution": lambda: D.TransformedDistribution(D.Normal(real, positive), [D.SigmoidTransform()]),
    "NormalNumbers": lambda: D.Normal(0.0, 1.0),
    "NormalNumberLoc": lambda: D.Normal(0.0, positive),
    "NormalNumberScale": lambda: D.Normal(real, 1.0),
    "NormalUnchecked": lambda: D.Normal(real, positive, validate_args=False),
}


def asked(call: Callable[[], Any]) -> str:
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        call()
        return "quiet"
    except Exception as error:
        return "waits" if "synchronizing" in str(error) else f"raises {type(error).__name__}: {error}"[:90]
    finally:
        torch.cuda.set_sync_debug_mode("default")


def answers(make: Callable[[], D.Distribution]) -> dict[str, str]:
    one = make()
    value = one.sample()
    calls: dict[str, Callable[[], Any]] = {
        "sample": one.sample,
        "rsample": one.rsample,
        "log_prob": lambda: one.log_prob(value),
        "cdf": lambda: one.cdf(value),
        "icdf": lambda: one.icdf(unit),
        "entropy": one.entropy,
        "mean": lambda: one.mean,
        "mode": lambda: one.mode,
        "variance": lambda: one.variance,
        "expand": lambda: one.expand((2, *one.batch_shape)),
        "kl": lambda: D.kl_divergence(one, one),
    }
    found = {"__init__": asked(make)}
    for name, call in calls.items():
        with contextlib.suppress(Exception):
            call()
        found[name] = asked(call)
    return found


if __name__ == "__main__":
    results = {name: answers(make) for name, make in MADE.items()}
    told = {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "results": results}
    Path(sys.argv[1]).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    for name, found in results.items():
        print(name, ", ".join(method for method, answer in found.items() if answer == "waits"))
