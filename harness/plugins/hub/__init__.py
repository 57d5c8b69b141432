"""Data sets of the Hugging Face Hub as rows."""

from harness.plugin import NamedTask, Plugin

plugin = Plugin(
    summary="Data sets of the Hugging Face Hub as rows.",
    tasks={"hub": ".task:HubTask"},
    named_tasks={"hub": NamedTask(option="dataset", left_out=r"^.*/(?=[^/])|/+$|[.].*")},
)
