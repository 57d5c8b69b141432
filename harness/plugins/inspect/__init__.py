"""Tasks of Inspect AI, with their solvers and scorers."""

from harness.plugin import NamedTask, Plugin

plugin = Plugin(
    summary="Tasks of Inspect AI, with their solvers and scorers.",
    tasks={"inspect": ".task:InspectTask"},
    named_tasks={"inspect": NamedTask(option="task", left_out=r"^.*/(?=[^/])|/+$|[.]py")},
)
