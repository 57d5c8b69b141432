"""The calibration curve, its error and the confidence covariance, by hand."""

import numpy as np
import pytest

from harness.analysis.judge_validation import BINS, calibration


def test_the_curve_and_its_error() -> None:
    probability = np.array([0.95, 0.95, 0.95, 0.95, 0.3, 0.3, 1.0, 0.0])
    reference = np.array([1, 1, 1, 0, 0, 1, 1, 0])
    found = calibration(probability, reference, np.arange(8))
    assert [one.n for one in found.bins] == [1, 0, 0, 2, 0, 0, 0, 0, 0, 5]
    assert found.bins[3].mean_probability == pytest.approx(0.3)
    assert found.bins[3].yes.mean == pytest.approx(0.5)
    assert found.bins[9].yes.mean == pytest.approx(0.8)
    assert found.bins[1].mean_probability is found.bins[1].yes.mean is None
    assert found.expected_error == pytest.approx(5 / 8 * 0.16 + 2 / 8 * 0.2)
    confidence = [0.95] * 4 + [0.7] * 2 + [1.0] * 2
    right = [1, 1, 1, 0, 1, 0, 1, 1]
    assert found.mean_confidence == pytest.approx(np.mean(confidence))
    expected = np.cov(confidence, right, ddof=0)[0, 1]
    assert found.confidence_covariance.mean == pytest.approx(expected)


@pytest.mark.parametrize("place", range(BINS))
def test_a_bin_begins_at_its_lower_bound(place: int) -> None:
    found = calibration(np.array([place / 10]), np.array([1]), np.array([0]))
    assert [one.n for one in found.bins].index(1) == place


def test_the_covariance_is_at_most_an_eighth_and_0_without_knowledge() -> None:
    right_half, wrong_half = np.full(50, 1.0), np.full(50, 0.5)
    probability = np.append(right_half, wrong_half)
    reference = np.append(np.ones(50), np.zeros(50))  # at 0.5 it says yes
    found = calibration(probability, reference, np.arange(100)).confidence_covariance
    assert found.mean == pytest.approx(0.125)
    assert found.ci95 is None, "nothing varies, so nothing is known of the error"
    same = calibration(np.full(4, 0.9), np.array([1, 0, 1, 1]), np.arange(4))
    assert same.confidence_covariance.mean == pytest.approx(0)


def test_over_nothing() -> None:
    found = calibration(np.zeros(0), np.zeros(0, int), np.zeros(0, int))
    assert found.n == 0
    assert found.expected_error is found.mean_confidence is None
    assert found.confidence_covariance.mean is None
