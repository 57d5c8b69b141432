"""What statsmodels says of a mean whose values come in clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import statsmodels.api as sm


def least_squares(values: Any, clusters: Any) -> Any:
    """Ordinary least squares on a constant, errors clustered, t with Satterthwaite's degrees."""
    kinds = {"groups": clusters, "use_correction": True, "df_correction": True}
    model = sm.OLS(np.asarray(values, float), np.ones(len(values)))
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
