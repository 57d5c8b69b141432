"""Shows dry runs: the plans of runs and their estimated costs."""

from collections.abc import Sequence
from itertools import islice
from math import inf

from rich.text import Text

from harness.analysis.metrics import unanswerable
from harness.cli.confirm import cost_text
from harness.config.run_file import RunFile
from harness.config.settings import shown_url
from harness.engine.dry_run import (
    CallEstimate,
    DryRun,
    EstimateRange,
    estimate_run,
    estimate_waves,
    wave_hours,
)
from harness.engine.job import Job
from harness.engine.judges import judge_warnings
from harness.ports import Judge, overrides
from harness.report.text import inert_text, usd
from harness.store.runs import run_name
from harness.terminal.console import output, show_facts


def show_dry_runs(jobs: Sequence[Job], missing: Sequence[str], base: str) -> None:
    """Show each run's plan, the ``missing`` secrets and, for several runs, the totals."""
    found: list[DryRun] = []
    made: set[str] = set()
    prompts: list[object] = []  # already shown
    for job in jobs:
        one = estimate_run(job, made)
        made |= one.calls | one.judged
        found.append(one)
        name = run_name(base, job.variant.name)
        rows = {"run": str(job.settings.runs_dir / name), **_rows(job, one)}
        rows["run"] += " (continued)" * job.folder.begun()
        if missing:
            rows["not set"] = f"{', '.join(dict.fromkeys(missing))}: needed for a real run"
        show_facts(rows)
        prompt = () if one.first in prompts else one.first or ()
        prompts.append(one.first)
        for message in prompt:
            output.print(Text(f"\nfirst prompt ({message.role}):", style="dim"))
            output.print(inert_text(message.content[:2000]), soft_wrap=True)
    if len(jobs) > 1:
        known = [cost for one in found if (cost := one.total_usd) is not None]
        answers = sum((one.model.calls for one in found), EstimateRange())
        judged = sum((one.judge_calls for one in found), EstimateRange())
        played = sum((one.user.calls for one in found if one.user), EstimateRange())
        at_most = any(one.at_most for one in found)
        rows = {
            "all": f"{len(jobs):,} runs, one after another; a shared call is paid once",
            "calls to pay": _to_pay(answers, played, judged, at_most=at_most),
            "cost": cost_text(
                sum(known, EstimateRange()) if len(known) == len(found) else None,
                [model for job in jobs for model in job.models],
            ),
        }
        caps = [cap for job in jobs if (cap := job.run.budget_usd) is not None]
        if len(caps) == len(jobs):
            rows["budget"] = f"{usd(max(caps))} for all: they end before they cost more"
        output.print()
        show_facts(rows, "bold")


def _whole(run: RunFile, found: DryRun) -> str:
    """Return a note that the data have fewer instances than the run's limit, or ""."""
    fewer = run.limit is not None and found.instances < run.limit and run.shard is None
    return f": the data have no more (limit: {run.limit:,})" if fewer else ""


def _rows(job: Job, found: DryRun) -> dict[str, str]:
    run, where, asked = job.run, shown_url(job.model.backend.endpoint), found.model
    played = found.user.calls if found.user else EstimateRange()
    rows = {
        "task": run.task.label,
        "model": " ".join(filter(None, (run.model.name, f"({run.model.backend})", where))),
        "instances": f"{found.instances:,}" + _whole(run, found),
        "samples": f"{found.samples:,}, {found.owed_samples:,} of them unfinished",
        "calls of round 1": f"{len(found.calls):,} distinct, {found.cached:,} of them cached",
        "calls to pay": _to_pay(asked.calls, played, found.judge_calls, at_most=found.at_most),
    }
    if asked.calls.high or len(found.parts) == 1:
        which = "for answers: " * (len(found.parts) > 1)
        rows["input tokens"] = which + _about(asked.input_tokens)
        rows["output tokens"] = which + _spread(asked.output_tokens)
    if job.shots is not None:
        lacking = job.shots.lacking
        fewer = f"; fewer for {lacking:,} instances, which lack suitable ones" if lacking else ""
        rows["shots"] = f"{run.task.shots.n:,} before each prompt{fewer}"
    if run.part is not None:
        parts = ["instances"]
        parts += ["budget"] if not run.budget.shared else []
        parts += ["rate limits"] if job.settings.cache_url is None else []
        rows["shard"] = f"{run.shard}: its part of {', '.join(parts)}"
    if run.budget_usd is not None:
        others = len(job.variant.runs) - 1
        shared = f", shared with {others:,} other run{'s' * (others > 1)}" if others > 0 else ""
        if run.budget.shared:
            shared = f", shared with the team as {run.budget.shared!r}"
        ends = ": the run ends before it costs more"
        rows["budget"] = usd(run.budget_usd) + (shared or ends)
    if run.polish:
        calls = "one more call per prompt and feedback, not counted above"
        rows["polished by"] = f"{run.polish.name}: {calls}"
    cost = cost_text(found.total_usd, job.models)
    if job.user is not None and found.user is not None:
        model, own = job.user.model.section, found.user
        said = f"{model.name or model.backend}: {_spread(own.calls, at_most=True)} calls"
        rows["played user"] = f"{said}, cost {cost_text(own.usd, [job.user.model])}{_tokens(own)}"
    if job.judges:
        for judge in job.judges:
            model, own = judge.model.section, found.judges[judge.name]
            many = _spread(own.calls, at_most=own.at_most)
            calls = f"{many} call{'s' * (own.calls.high != 1)}"
            calls += f" ({own.cached:,} more are cached)" if own.cached else ""
            if overrides(judge.judge, Judge.next_questions):
                calls += " and those that follow from its replies"
                rows["calls to pay"] += ", and those that follow from their replies"
            calls += f", cost {cost_text(own.usd, [judge.model])}{_tokens(own)}"
            rows[f"judge {judge.name}"] = f"{model.name or model.backend}: {calls}"
        for name, text in judge_warnings(job.judges, job.instances):
            rows[f"judge {name}"] = f"{text}\n{rows[f'judge {name}']}"
    if len(found.parts) > 1 and found.total_usd and cost != "nothing":
        cost += f", {cost_text(asked.usd)} of it for the answers"
    rows["cost"] = cost
    if (waves := estimate_waves(job)) is not None:
        several, hours = "s" * (waves.high > 1), wave_hours(job)
        rows["batches"] = f"{_spread(waves)} wave{several} of up to {hours} hours, at batch prices"
    if (saved := found.total_saved_usd).high:
        rows["prompt cache"] = f"saves about {cost_text(saved)}; the lower cost includes this"
    if n := job.unanswerable():
        rows["simulated"] = unanswerable(n, found.instances)
    if not found.references:
        return rows
    failed = found.failed_references
    passing = f"{found.references - len(failed):,} of {found.references:,} pass"
    reasons = [f"{name} ({why[:200]})" for name, why in islice(failed.items(), 5)]
    listed = ", ".join(reasons) + " …" * (len(failed) > 5)
    rows["reference answers"] = passing + (f"; these fail: {listed}" if failed else "")
    return rows


def _to_pay(
    answers: EstimateRange, played: EstimateRange, judged: EstimateRange, *, at_most: bool
) -> str:
    second = {"the played user": played, "judges": judged}
    asked = {name: calls for name, calls in second.items() if calls.high}
    if not asked:
        return _spread(answers)
    parts = [f"{_spread(answers)} for answers"]
    parts += [f"{_spread(calls, at_most=at_most)} for {name}" for name, calls in asked.items()]
    return f"{_spread(sum(asked.values(), answers), at_most=at_most)}: {', '.join(parts)}"


def _tokens(found: CallEstimate) -> str:
    """Return the tokens of the calls of a judge or played user as text, or "" without calls."""
    if not found.calls.high:
        return ""
    output_tokens = _spread(found.output_tokens, at_most=found.at_most)
    return f"; input tokens {_about(found.input_tokens)}, output tokens {output_tokens}"


def _about(tokens: EstimateRange) -> str:
    return f"about {_spread(tokens)}".replace("about unknown", "unknown")


def _spread(figure: EstimateRange, *, at_most: bool = False) -> str:
    if at_most:
        return f"at most {figure.high:,.0f}"
    if figure.high == inf:  # low is 0 if all calls are of rounds that depend on earlier replies
        known = f"{figure.low:,.0f} or more" if figure.low else "unknown"
        return f"{known}: decoding.max_tokens is not set"
    low, high = f"{figure.low:,.0f}", f"{figure.high:,.0f}"
    return low if low == high else f"{low} to {high}"
