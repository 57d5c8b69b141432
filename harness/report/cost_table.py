"""What runs took, side by side: calls, tokens, seconds, money.

>>> Console(width=80).print(cost_table([(metrics, latencies)]))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from harness.analysis.metrics import Metrics
from harness.analysis.summary import Latencies
from harness.report.ablation_figures import whole
from harness.report.cells import UNKNOWN, empty_table, usd


def cost_table(runs: Sequence[tuple[Metrics, Latencies | None]]) -> RenderableType:
    """A row for each run, with how long its calls took."""
    table = empty_table()
    table.add_column("run", overflow="fold", min_width=8)
    for heading in ("calls", "failed", "tokens in, out", "out a call", "median, 95% s", "cost"):
        table.add_column(heading, justify="right")
    for metrics, took in runs:
        usage, counted = metrics.usage, metrics.n_calls - metrics.n_calls_without_usage
        table.add_row(
            Text(whole(metrics.run)),
            f"{metrics.n_calls:,}",
            f"{metrics.outcomes['error']:,}",
            f"{usage.input_tokens:,}, {usage.output_tokens:,}" if usage else UNKNOWN,
            f"{usage.output_tokens / counted:,.1f}" if usage and counted else UNKNOWN,
            f"{took.median:.2f}, {took.quantiles[95]:.2f}" if took else UNKNOWN,
            usd(metrics.cost_usd) if metrics.cost_usd is not None else UNKNOWN,
        )
    return Group(
        table,
        Text(
            "Each call once, however many attempts share it. Seconds: of the calls that were made "
            "and answered, half of them and 95% took no longer; answers from the cache are left "
            "out. failed: attempts without an answer.",
            style="dim",
        ),
    )
