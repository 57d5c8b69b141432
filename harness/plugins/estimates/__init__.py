"""What runs would cost: dry runs, and the estimate and question before a paid run."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Dry runs, and the estimated cost before a paid run.",
    run_steps={"dry_run": ".confirm:show_dry_runs", "confirm": ".confirm:confirm_runs"},
)
