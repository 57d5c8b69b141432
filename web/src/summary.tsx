/* The first screen: the answer, the rates, what fails and why, each score, and the comparison. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { link, type State } from "./state";
import type { Failure, Overview, RunOverview, ScoreOfRun } from "./model";
import { Badges, DataTable } from "./table";
import { counted, dollars, percent, seconds, several, T, visible } from "./text";

export function Section({ id, title, children }: { id: string; title: string; children: ComponentChildren }) {
  return (
    <section id={id} aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`} tabIndex={-1}><T t={title} /></h2>
      {children}
    </section>
  );
}

export function Answer({ overview }: { overview: Overview }) {
  const { runs } = overview;
  const tasks = [...new Set(runs.map((run) => run.task))].join(", ");
  const when = overview.made_at.slice(0, 16).replace("T", " ");
  return (
    <section aria-labelledby="answer" class="answer">
      <p class="title">
        <b><T t={overview.title} /></b> · {when} UTC
        {runs.length > 0 && <> · {several(runs.length, "run")} of <T t={tasks} /></>}
        {overview.live && <span class="live">live</span>}
      </p>
      <h1 id="answer"><T t={overview.answer.sentence} /></h1>
      {overview.answer.support.map((text, at) => <p class="support" key={at}><T t={text} /></p>)}
      {overview.marks.length > 0 && (
        <ul class="banner" role="note" aria-label="Read with care">
          {overview.marks.map((mark, at) => (
            <li key={at}>
              <strong><T t={mark.text} /></strong>{" "}
              <span class="name"><T t={mark.runs.length > 2 && mark.runs.length === runs.length ? "all runs" : mark.runs.join(", ")} /></span>{" "}
              <T t={mark.note} />
            </li>
          ))}
        </ul>
      )}
      {overview.warnings.map((text, at) => <p class="warning" role="note" key={at}><T t={text} /></p>)}
    </section>
  );
}

const at = (share: number) => `${(100 * Math.min(1, Math.max(0, share))).toFixed(2)}%`;

/** A dot with its 95% interval, as shares of the axis. */
function Dot({ value, low, high, mark, hollow }: { value: number; low: number | null; high: number | null; mark?: number; hollow?: boolean }) {
  return (
    <span class="plot" aria-hidden="true">
      {mark !== undefined && <i class="baseline" style={{ left: at(mark) }} />}
      {low !== null && high !== null && <i class="interval" style={{ left: at(low), right: at(1 - high) }} />}
      <i class={hollow ? "dot hollow" : "dot"} style={{ left: at(value) }} />
    </span>
  );
}

function Axis({ ticks }: { ticks: [share: number, text: string][] }) {
  return (
    <span class="axis" aria-hidden="true">
      {ticks.map(([share, text]) => <span key={text} style={{ left: at(share) }}>{text}</span>)}
    </span>
  );
}

const RATE_TICKS: [number, string][] = [0, 0.25, 0.5, 0.75, 1].map((share) => [share, `${100 * share}%`]);
const range = (low: number, high: number, n: number) => `${percent(low, n).slice(0, -1)} to ${percent(high, n)}`;

/** Overall rates with their 95% intervals, the best first. */
export function Rates({ overview }: { overview: Overview }) {
  const baseline = overview.runs.find((run) => run.name === overview.comparison?.baseline);
  const runs = overview.runs.toSorted((a, b) => (b.rate?.value ?? -1) - (a.rate?.value ?? -1));
  const measures = [...new Set(runs.map((run) => run.measure))];
  const models = new Set(runs.map((run) => run.model));
  const marked = (run: RunOverview) => run.marks.filter((mark) => runs.some((each) => !each.marks.includes(mark)));
  const title = measures.length === 1 ? measures[0]! : "Rates";
  return (
    <Section id="rates" title={title.charAt(0).toUpperCase() + title.slice(1)}>
      <ul class="rates">
        <li class="heads" aria-hidden="true">
          <span /><span>with 95% interval</span><span class="rate" /><span>n</span><span>cost</span><span>median time</span>
        </li>
        {runs.map((run) => (
          <li key={run.name}>
            <span class="who">
              <a href={link({ where: run.name, verdict: "failed" })} title={visible(run.full_name)}><T t={run.name} /></a>
              {run === baseline && <span class="tag">baseline</span>}
              <Badges marks={marked(run)} />
              {(models.size > 1 || runs.length === 1) && <small><T t={run.model} /></small>}
              {measures.length > 1 && <small><T t={run.measure} /></small>}
            </span>
            {/* The banner already says what holds for all runs. */}
            {run.rate ? <Dot {...run.rate} mark={baseline?.rate?.value} hollow={run === baseline} /> : <span class="plot" />}
            <span class="rate">
              {run.rate ? <><b>{percent(run.rate.value, run.rate.n)}</b> <small>{range(run.rate.low, run.rate.high, run.rate.n)}</small></> : "not judged"}
            </span>
            <Fact name="n">{counted(run.rate?.n ?? 0)}{run.complete ? "" : ` of ${counted(run.planned)}`}</Fact>
            <Fact name="cost">{run.recorded ? "recorded" : run.cost_usd === null ? "unknown" : dollars(run.cost_usd)}</Fact>
            <Fact name="median time">{run.recorded || !run.latency_s ? "-" : seconds(run.latency_s.median)}</Fact>
          </li>
        ))}
        <li class="heads" aria-hidden="true"><span /><Axis ticks={RATE_TICKS} /></li>
      </ul>
    </Section>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return <span class="fact"><span class="factname">{name} </span>{children}</span>;
}

/** A row per thing, a column per run; the parts of the first screen share it. */
function Matrix({ title, heads, rows }: { title: string; heads: string[]; rows: [ComponentChildren, ComponentChildren[]][] }) {
  const [all, setAll] = useState(false);
  const most = 12;
  const shown = all ? rows : rows.slice(0, most);
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={title}>
        <table class="matrix">
          <caption class="hidden">{title}</caption>
          <thead>
            <tr>{heads.map((head, at) => <th scope="col" key={at}><T t={head} /></th>)}</tr>
          </thead>
          <tbody>
            {shown.map(([name, cells], at) => (
              <tr key={at}>
                <th scope="row">{name}</th>
                {cells.map((cell, run) => <td key={run}>{cell}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > most && (
        <button type="button" class="quiet" onClick={() => setAll(!all)}>
          {all ? "Show fewer" : `Show all ${counted(rows.length)}`}
        </button>
      )}
    </>
  );
}

const filtered = (filter: Record<string, string>) => `#attempts?${new URLSearchParams(filter)}`;

/** Why attempts fail, by run; a number leads to its attempts. */
export function Failures({ overview }: { overview: Overview }) {
  const { runs } = overview;
  const reasons = new Map<string, (Failure | undefined)[]>();
  runs.forEach((run, number) => {
    for (const failure of run.failures) {
      if (!reasons.has(failure.reason)) reasons.set(failure.reason, []);
      reasons.get(failure.reason)![number] = failure;
    }
  });
  if (!reasons.size) return null;
  const total = (found: (Failure | undefined)[]) => found.reduce((sum, one) => sum + (one?.n ?? 0), 0);
  const rows = [...reasons].sort((a, b) => total(b[1]) - total(a[1]));
  return (
    <Section id="failures" title="What fails, and why">
      <p class="note">Failed attempts by reason, with their share of the run's attempts. A number opens them.</p>
      <Matrix
        title="Failures by reason"
        heads={["reason", ...runs.map((run) => run.name), "example"]}
        rows={rows.map(([reason, found]) => {
          const run = runs.findIndex((_, number) => found[number]?.example);
          const example = found[run]?.example;
          const open: Partial<State> = example ? { open: example[0], sample: example[1], at: example[2], of: runs[run]!.name } : {};
          return [
            <T t={reason} />,
            [
              ...runs.map((each, number) => {
                const failure = found[number];
                if (!failure) return <span class="none" key={each.name}>–</span>;
                return (
                  <a class="bar-cell" key={each.name} href={filtered(failure.filter)}>
                    <span class="share" style={{ width: at(failure.share) }} aria-hidden="true" />
                    <b>{counted(failure.n)}</b> <small>{percent(failure.share, each.samples)}</small>
                  </a>
                );
              }),
              example ? <a href={link(open)} aria-label={visible(`An example of: ${reason}`)}>open one</a> : null,
            ],
          ];
        })}
      />
    </Section>
  );
}

function ScoreCell({ run, score }: { run: RunOverview; score: ScoreOfRun | undefined }) {
  if (!score || score.value === null) return <span class="none">–</span>;
  const rate = score.unit === "%";
  const text = rate ? percent(score.value, score.n) : Number(score.value.toPrecision(3)) + (score.unit ? ` ${score.unit}` : "");
  const to = link(rate ? { score: score.name, where: run.name, verdict: "failed" } : { score: score.name, sort: run.name });
  return (
    <span class="score">
      <a href={to} title={`n = ${counted(score.n)}`}><b>{text}</b></a>
      {score.low !== null && score.high !== null && (
        <small>{rate ? range(score.low, score.high, score.n) : `${Number(score.low.toPrecision(3))} to ${Number(score.high.toPrecision(3))}`}</small>
      )}
      {score.missing > 0 && <small class="missing-scores">{counted(score.missing)} not scored</small>}
      {rate && <Dot value={score.value} low={score.low} high={score.high} />}
    </span>
  );
}

/** Each check and judge, by run. */
export function Scores({ overview }: { overview: Overview }) {
  const { runs } = overview;
  const names = new Map(runs.flatMap((run) => run.scores.map((score) => [score.name, score.kind] as const)));
  if (!names.size) return null;
  return (
    <Section id="scores" title="Checks and judges">
      <p class="note">How often each is satisfied, with 95% intervals on an axis from 0 to 100%. A number opens what does not satisfy it.</p>
      <Matrix
        title="Checks and judges"
        heads={["score", ...runs.map((run) => run.name)]}
        rows={[...names].map(([name, kind]) => [
          <><T t={name} />{kind !== "check" && <> <span class="tag">{kind}</span></>}</>,
          runs.map((run) => <ScoreCell key={run.name} run={run} score={run.scores.find((score) => score.name === name)} />),
        ])}
      />
    </Section>
  );
}

const points = (difference: number, n: number) =>
  `${difference < 0 ? "−" : "+"}${percent(Math.abs(difference), n).slice(0, -1)}`;
const probability = (p: number) => (p < 0.001 ? "< 0.001" : p.toFixed(3));

/** Each run against the baseline. */
export function Comparison({ overview }: { overview: Overview }) {
  const { comparison } = overview;
  if (!comparison?.rows.length) return null;
  const most = Math.max(0.1, ...comparison.rows.flatMap(({ low, high, difference }) => [low, high, difference].map((each) => Math.abs(each ?? 0))));
  const edge = Math.min(1, Math.ceil(most * 10) / 10);
  const share = (difference: number) => (difference + edge) / (2 * edge);
  const ticks: [number, string][] = [-edge, 0, edge].map((each) => [share(each), each ? points(each, 0) : "0"]);
  const adjusted = comparison.rows.some((row) => row.p_adjusted !== null);
  const round = comparison.round ? `, up to round ${comparison.round}` : "";
  return (
    <Section id="comparison" title={`Compared with ${comparison.baseline}`}>
      <p class="note">Difference of the <T t={comparison.score} />{round} on the same cases, in percentage points. Numbers of instances open them.</p>
      <div class="scroll" tabIndex={0} role="region" aria-label={visible(`Runs against ${comparison.baseline}`)}>
        <table class="matrix">
          <caption class="hidden">Runs against <T t={comparison.baseline} /></caption>
          <thead>
            <tr>
              <th scope="col">run</th>
              <th scope="col" class="wide"><span class="hidden">interval</span><Axis ticks={ticks} /></th>
              <th scope="col">points</th>
              <th scope="col">{adjusted ? "p, adjusted" : "p"}</th>
              <th scope="col">better</th>
              <th scope="col">worse</th>
              <th scope="col" class="figure">instances</th>
            </tr>
          </thead>
          <tbody>
            {comparison.rows.map((row) => {
              const p = row.p_adjusted ?? row.p;
              const sure = row.low !== null && row.high !== null && (row.low > 0 || row.high < 0);
              const open = (kind: "better" | "worse") =>
                row[kind] ? <a href={link({ change: `${kind}:${row.run}` })}>{counted(row[kind])}</a> : "0";
              return (
                <tr key={row.run}>
                  <th scope="row"><T t={row.run} /></th>
                  <td class="wide">
                    {row.difference !== null && (
                      <Dot value={share(row.difference)} low={row.low === null ? null : share(row.low)} high={row.high === null ? null : share(row.high)} mark={0.5} hollow={!sure} />
                    )}
                  </td>
                  <td class="nowrap">
                    {row.difference === null ? "–" : <b>{points(row.difference, row.n)}</b>}{" "}
                    {row.low !== null && row.high !== null && <small>{points(row.low, row.n)} to {points(row.high, row.n)}</small>}
                  </td>
                  <td class="nowrap">{p === null ? "–" : probability(p)}{!sure && <small> not sure</small>}</td>
                  <td>{open("better")}</td>
                  <td>{open("worse")}</td>
                  <td class="figure">{counted(row.n)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {comparison.notes.map((text, at) => <p class="note" key={at}><T t={text} /></p>)}
    </Section>
  );
}

export function Differences({ overview }: { overview: Overview }) {
  if (!overview.differences) return null;
  return (
    <Section id="differences" title="What the runs differ in">
      <DataTable table={overview.differences} hideTitle />
    </Section>
  );
}
