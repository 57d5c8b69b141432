"""What statsmodels says; imported when called, since each worker collects every module."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np


def least_squares(values: Any, clusters: Any, weights: Any = 1.0) -> Any:
    """Least squares on a constant, errors clustered, t with Satterthwaite's degrees."""
    import statsmodels.api as sm

    kinds = {"groups": clusters, "use_correction": True, "df_correction": True}
    model = sm.WLS(np.asarray(values, float), np.ones(len(values)), weights)
    fitted = model.fit(cov_type="cluster", cov_kwds=kinds, use_t=True)
    assert fitted.df_resid_inference == len(np.unique(clusters)) - 1  # what it would take
    if len(np.unique(clusters)) > 1:
        sizes = np.unique(clusters, return_counts=True)[1]
        fitted._results.df_resid_inference = satterthwaite(sizes)  # the wrapper would keep it
    return fitted


def satterthwaite(sizes: Any) -> float:
    """In matrices: cluster totals that move as one, less the mean that they make."""
    sizes = np.asarray(sizes, float)
    less_mean = np.eye(len(sizes)) - np.outer(sizes, np.ones(len(sizes))) / sizes.sum()
    covariance = less_mean @ np.diag(sizes**2) @ less_mean.T
    return float(np.trace(covariance) ** 2 / np.trace(covariance @ covariance))


def multipletests(p_values: Any, method: str) -> list[float]:
    """P values adjusted by `holm` or `fdr_bh`."""
    from statsmodels.stats.multitest import multipletests

    gc.freeze()  # statsmodels collects garbage: 80 ms with all tests loaded
    try:
        return list(multipletests(p_values, method=method)[1])
    finally:
        gc.unfreeze()


def mcnemar(table: Any) -> float:
    """The exact test's p value."""
    from statsmodels.stats.contingency_tables import mcnemar

    return float(mcnemar(table, exact=True).pvalue)


def effect_size(first: float, second: float) -> float:
    """Cohen's h of two proportions."""
    from statsmodels.stats.proportion import proportion_effectsize

    return float(proportion_effectsize(first, second))


def power(effect: float, n: int) -> float:
    """Of a paired t test at 5%."""
    from statsmodels.stats.power import TTestPower

    return float(TTestPower().power(effect, nobs=n, alpha=0.05))
