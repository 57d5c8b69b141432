/* The first screen: the answer, the rates, what fails and why; then each score and the comparison. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { link, type State } from "./state";
import type { Failure, Index, Overview, RunOverview, ScoreOfRun } from "./model";
import { Badges, DataTable, orderOf, SortButton } from "./table";
import { between, counted, dollars, measured, percent, seconds, several, T, visible } from "./text";

/** A section, and its other parts, which come after what is drawn here. */
interface WithParts { overview: Overview; children?: ComponentChildren }

/** `folded`: only the heading is shown until it is opened, or linked to. */
export function Section({ id, title, folded, children }: { id: string; title: string; folded?: boolean; children: ComponentChildren }) {
  const heading = <h2 id={`${id}-title`} tabIndex={-1}><T t={title} /></h2>;
  return (
    <section id={id} aria-labelledby={`${id}-title`}>
      {folded ? <details class="fold"><summary>{heading}</summary>{children}</details> : <>{heading}{children}</>}
    </section>
  );
}

/** The rounds that the page's figures are of, in a link into the grid. */
const lastRound = ({ comparison }: Overview): Record<string, string> => (comparison?.round ? { round: "last" } : {});

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
        <ul class="banner" aria-label="Read with care">
          {overview.marks.map((mark, at) => (
            <li key={at}>
              <strong><T t={mark.text} /></strong>{" "}
              <span class="name"><T t={mark.runs.length > 2 && mark.runs.length === runs.length ? "all runs" : mark.runs.join(", ")} /></span>{" "}
              <T t={mark.note} />
            </li>
          ))}
        </ul>
      )}
      {overview.warnings.length > 0 && (
        <ul class="warning" aria-label="Notes">{overview.warnings.map((text, at) => <li key={at}><T t={text} /></li>)}</ul>
      )}
    </section>
  );
}

interface Value { value: number | null; low: number | null; high: number | null }
const NOTHING: Value = { value: null, low: null, high: null };

/** The values at the two ends of a plot: 0 and 1 for rates. */
type Ends = [from: number, to: number];
const RATES: Ends = [0, 1];
const at = (value: number, [from, to] = RATES) => `${(100 * Math.min(1, Math.max(0, (value - from) / (to - from)))).toFixed(2)}%`;

/** A dot with its 95% interval. */
function Dot({ value, low, high, mark, hollow, axis }: Value & { mark?: number | null; hollow?: boolean; axis?: Ends }) {
  return (
    <span class="plot" aria-hidden="true">
      {mark != null && <i class="baseline" style={{ left: at(mark, axis) }} />}
      {low !== null && high !== null && <i class="interval" style={{ left: at(low, axis), right: `calc(100% - ${at(high, axis)})` }} />}
      {value !== null && <i class={hollow ? "dot hollow" : "dot"} style={{ left: at(value, axis) }} />}
    </span>
  );
}

function Measured({ value, low, high, unit }: Value & { unit: string }) {
  if (value === null) return <span class="none">not judged</span>;
  return <><b>{measured(value, unit)}</b>{low !== null && high !== null && <small class="nowrap"> {between(low, high, unit)}</small>}</>;
}

function Axis({ ticks, ends }: { ticks: [value: number, text: string][]; ends?: Ends }) {
  return (
    <span class="axis" aria-hidden="true">
      {ticks.map(([value, text]) => <span key={text} style={{ left: at(value, ends) }}>{text}</span>)}
    </span>
  );
}

const QUARTERS = [0, 0.25, 0.5, 0.75, 1];

/** Overall rates with their 95% intervals, the best first. */
export function Rates({ overview }: { overview: Overview }) {
  const baseline = overview.runs.find((run) => run.name === overview.comparison?.baseline);
  const runs = overview.runs.toSorted((a, b) => (b.rate?.value ?? -1) - (a.rate?.value ?? -1));
  const measures = [...new Set(runs.map((run) => run.measure))];
  const rates = runs.every((run) => run.unit === "%");
  const ends = runs.flatMap(({ rate }) => [rate?.value, rate?.low, rate?.high]).filter((each) => each != null);
  const axis: Ends = rates || !ends.length ? RATES : [Math.min(0, ...ends), Math.max(1, ...ends)];
  const ticks = QUARTERS.map((share): [number, string] => {
    const value = axis[0] + share * (axis[1] - axis[0]);
    return [value, rates ? `${100 * value}%` : measured(value, "")];
  });
  const models = new Set(runs.map((run) => run.model));
  const marked = (run: RunOverview) => run.marks.filter((mark) => runs.some((each) => !each.marks.includes(mark)));
  const title = measures.length === 1 ? measures[0]! : "Rates";
  const judges = [...new Set(runs.flatMap((run) => run.without?.judges ?? []))];
  const rounds = runs.some(({ latency_s, sample_s }) => latency_s?.median !== sample_s?.median);
  const time = (run: RunOverview, of: RunOverview["latency_s"]) => (run.recorded || !of ? "-" : seconds(of.median));
  const p95 = (of: RunOverview["latency_s"]) => (of ? `95th percentile: ${seconds(of.p95)}` : undefined);
  const facts: FactOf[] = [
    ...(judges.length ? [{
      name: `without ${judges.length > 1 ? "judges" : "the judge"} ${judges.join(", ")}, not validated`, width: "9rem",
      title: () => "The pass rate without a judge that was not validated against human labels, and the failures that nothing else found",
      of: ({ without }: RunOverview) => without && <>{without.value === null ? "nothing else judges" : percent(without.value)} <small>drops {counted(without.alone)} of {several(without.failed, "failure")}</small></>,
    }] : []),
    { name: "n", width: "2.5rem", title: () => "judged samples", of: (run) => <>{counted(run.rate?.n ?? 0)}{run.planned !== null && run.planned > run.samples && <small> of {counted(run.planned)}</small>}</> },
    {
      name: "cost", width: "4.5rem",
      title: (run) => (run.cost_per_solved_usd === null ? undefined : `${dollars(run.cost_per_solved_usd)} per passed sample`),
      of: (run) => (run.recorded ? "recorded" : run.cost_usd === null ? "unknown" : `${run.computed_usd ? "≈" : ""}${dollars(run.cost_usd)}`),
    },
    { name: "median time per uncached call", width: "6rem", title: (run) => p95(run.latency_s), of: (run) => time(run, run.latency_s) },
    ...(rounds ? [{
      name: "median time per sample, all answers", width: "6rem",
      title: (run: RunOverview) => p95(run.sample_s), of: (run: RunOverview) => time(run, run.sample_s),
    }] : []),
  ];
  return (
    <Section id="rates" title={title.charAt(0).toUpperCase() + title.slice(1)}>
      <ul class="rates" style={{ "--facts": facts.map(({ width }) => width).join(" ") }}>
        <li class="heads" aria-hidden="true">
          <span /><span>with 95% interval{baseline && runs.length > 1 && "; hollow: the baseline"}</span><span class="rate" />
          {facts.map(({ name }) => <span key={name}><T t={name} /></span>)}
        </li>
        {runs.map((run) => (
          <li key={run.name}>
            <span class="who">
              <a href={link({ where: run.name, verdict: "failed", ...lastRound(overview) })} title={visible(`${run.full_name}: open the failed samples`)}><T t={run.name} /></a>
              {run === baseline && <span class="tag">baseline</span>}
              <Badges marks={marked(run)} />
              {run.not_judged > 0 && <small>{counted(run.not_judged)} not judged</small>}
              {(models.size > 1 || runs.length === 1) && run.model && <small><T t={run.model} /></small>}
              {measures.length > 1 && <small><T t={run.measure} /></small>}
            </span>
            {/* The banner already says what holds for all runs. */}
            <Dot {...(run.rate ?? NOTHING)} mark={baseline?.rate?.value} hollow={run === baseline} axis={axis} />
            <span class="rate"><Measured {...(run.rate ?? NOTHING)} unit={run.unit} /></span>
            {facts.map(({ name, title, of }) => (
              <span class="fact" key={name} title={title(run)}><span class="factname"><T t={name} /> </span>{of(run)}</span>
            ))}
          </li>
        ))}
        <li class="heads" aria-hidden="true"><span /><Axis ticks={ticks} ends={axis} /></li>
      </ul>
      {overview.prefix && <p class="note">Names are shown without their common beginning, <b><T t={overview.prefix} /></b></p>}
    </Section>
  );
}

/** A column of facts about the runs, beside their rates. */
interface FactOf { name: string; width: string; title: (run: RunOverview) => string | undefined; of: (run: RunOverview) => ComponentChildren }

/** A row of a matrix: its name, its cells, and what the columns sort by, from the name on. */
type MatrixRow = [name: ComponentChildren, cells: ComponentChildren[], keys: (string | number | null)[]];

/** A row per thing, a column per run. On narrow screens, the cells of a row have `labels` instead of heads. */
function Matrix({ title, heads, labels, rows }: { title: string; heads: ComponentChildren[]; labels: string[]; rows: MatrixRow[] }) {
  const [all, setAll] = useState(false);
  const most = 12;
  const order = orderOf(title);
  const inOrder = order.sorted(rows, ([, , keys], column) => keys[column]);
  const shown = all ? inOrder : inOrder.slice(0, most);
  const head = (content: ComponentChildren, at: number) =>
    rows.length > 1 && at < rows[0]![2].length
      ? <SortButton heading={content} sort={order.of(at)} onSort={(event) => order.press(at, at > 0, event)} />
      : content;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={title}>
        <table class="matrix stacked">
          <caption class="hidden">{title}</caption>
          <thead>
            <tr>{heads.map((content, at) => <th scope="col" key={at} aria-sort={order.of(at)}>{head(content, at)}</th>)}</tr>
          </thead>
          <tbody>
            {shown.map(([name, cells], at) => (
              <tr key={at}>
                <th scope="row">{name}</th>
                {cells.map((cell, at) => <td key={at} data-label={labels[at]}>{cell}</td>)}
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

const namesOf = (runs: RunOverview[]) => (runs.length > 1 ? runs.map(({ name }) => visible(name)) : []);

const filtered = (filter: Record<string, string>) => `#attempts?${new URLSearchParams(filter)}`;

/** Why samples fail, by run; a number leads to the samples that it counts. */
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
      <p class="note">
        Failed samples with each reason, and their share of the run's failed samples. A sample counts under each of its reasons, so the shares
        of a run may add up to more than 100%. The share of an error is of the failed calls. A number opens the samples that it counts.
      </p>
      <Matrix
        title="Failures by reason"
        labels={namesOf(runs)}
        heads={["reason", ...runs.map((run) => <><T t={run.name} /> <small>{counted(run.n_failed)} of {counted(run.samples)} failed{run.n_failed_calls > 0 && `, ${several(run.n_failed_calls, "failed call")}`}</small></>), "example"]}
        rows={rows.map(([reason, found]) => {
          const having = [...runs.keys()].filter((number) => found[number]?.example);
          const run = having.find((number) => found[number]!.alone) ?? having[0] ?? -1;
          const example = found[run]?.example;
          const hint = found.find((one) => one?.hint)?.hint;
          const open: Partial<State> = example
            ? { ...found[run]!.filter, ...lastRound(overview), open: example[0], sample: example[1], at: example[2], of: runs[run]!.name }
            : {};
          return [
            <><T t={reason} />{hint && <small class="hint"><T t={hint} /></small>}</>,
            [
              ...runs.map((each, number) => {
                const failure = found[number];
                if (!failure) return <span class="none" key={each.name}>–</span>;
                return (
                  <a class="bar-cell" key={each.name} href={filtered({ ...failure.filter, ...lastRound(overview) })}>
                    <span class="share" style={{ width: at(failure.n / failure.of) }} aria-hidden="true" />
                    <b>{counted(failure.n)}</b> <small>{percent(failure.n / failure.of)}</small>
                  </a>
                );
              }),
              example ? <a href={link(open)} aria-label={visible(`An example of: ${reason}`)}>open one</a> : null,
            ],
            [reason, ...runs.map((_, number) => found[number]?.n ?? 0)],
          ];
        })}
      />
    </Section>
  );
}

function ScoreCell({ run, score, verdict, round }: { run: RunOverview; score: ScoreOfRun | undefined; verdict: boolean; round: Partial<State> }) {
  if (!score || score.value === null) return <span class="none">–</span>;
  const rate = score.unit === "%";
  const filter = verdict ? { where: run.name, verdict: "failed" } : { sort: run.name };
  const to = link({ score: score.name, ...filter, ...round });
  return (
    <span class="score">
      {rate && score.value === 1 ? <Measured {...score} /> : <a href={to} title={`n = ${counted(score.n)}`}><Measured {...score} /></a>}
      {score.missing > 0 && (
        <small class="missing-scores"> of {counted(score.n)}; {counted(score.missing)} not scored</small>
      )}
      {rate && <Dot {...score} />}
    </span>
  );
}

/** Each check and judge, by run; those of the index that have verdicts lead to what fails them. */
export function Scores({ overview, index, children }: WithParts & { index: Index | null }) {
  const { runs } = overview;
  const names = new Map(runs.flatMap((run) => run.scores.map((score) => [score.name, score.kind] as const)));
  const verdicts = new Set(index?.scores.filter((score) => score.verdict).map((score) => score.name));
  // At the first score of each judge.
  const validated = new Map(Object.entries(overview.judges).map(([judge, told]) => [[...names.keys()].find((name) => name.startsWith(`${judge}.`)), told]));
  if (!names.size && !children) return null;
  return (
    <Section id="scores" title="Checks and judges">
      <p class="note">How often each check is satisfied, or the mean of a score, with 95% intervals. A number opens the samples that fail, or all with the lowest first.</p>
      {names.size > 0 && <Matrix
        title="Scores by run"
        labels={namesOf(runs)}
        heads={["score", ...runs.map((run) => <T t={run.name} />)]}
        rows={[...names].map(([name, kind]): MatrixRow => {
          const scores = runs.map((run) => run.scores.find((score) => score.name === name));
          return [
            <><T t={name} />{kind !== "check" && <> <span class="tag">{kind}</span></>}{validated.get(name) && <small class="hint"><T t={validated.get(name)!} /></small>}</>,
            runs.map((run, at) => <ScoreCell key={run.name} run={run} score={scores[at]} verdict={verdicts.has(name)} round={lastRound(overview)} />),
            [name, ...scores.map((score) => score?.value ?? null)],
          ];
        })}
      />}
      {children}
    </Section>
  );
}

const probability = (p: number) => (p < 0.001 ? "<0.001" : p.toFixed(3));

/** Each run against the baseline. */
export function Comparison({ overview, children }: WithParts) {
  const { comparison } = overview;
  if (!comparison?.rows.length) return children ? <Section id="comparison" title="Comparison">{children}</Section> : null;
  const { rows, unit } = comparison;
  const points = (difference: number) => `${difference < 0 ? "−" : "+"}${measured(Math.abs(difference), unit).replace("%", "")}`;
  const most = Math.max(unit === "%" ? 0.1 : 0, ...rows.flatMap(({ low, high, difference }) => [low, high, difference].map((each) => Math.abs(each ?? 0)))) || 1;
  const edge = unit === "%" ? Math.ceil(most * 10) / 10 : most;
  const ends: Ends = [-edge, edge];
  const adjusted = rows.some((row) => row.p_adjusted !== null);
  const round = comparison.round ? `, up to round ${comparison.round}` : "";
  const title = `Runs against ${comparison.baseline}`;
  const order = orderOf(title);
  const p = adjusted && rows.length > 1 ? `p (Holm, ${rows.length} runs)` : "p";
  const heads = [["run"], ["", "wide"], [unit === "%" ? "points" : "difference"], [p], ["better"], ["worse"], ["instances", "figure"]] as const;
  return (
    <Section id="comparison" title={`Compared with ${comparison.baseline}`}>
      <p class="note">
        Difference in <T t={comparison.score} />{round} on the same instances{unit === "%" && ", in percentage points"}. A hollow dot: no sure
        difference (p ≥ 0.05). Better and worse: instances, which a number opens.
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label={visible(title)}>
        <table class="matrix stacked">
          <caption class="hidden"><T t={title} /></caption>
          <thead>
            <tr>
              {heads.map(([head, kind], at) => (
                <th scope="col" class={kind} key={at} aria-sort={order.of(at)}>
                  {at === 1 ? <><span class="hidden">interval</span><Axis ticks={[[-edge, points(-edge)], [0, "0"], [edge, points(edge)]]} ends={ends} /></>
                    : rows.length > 1 ? <SortButton heading={head} sort={order.of(at)} onSort={(event) => order.press(at, at > 0, event)} /> : head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {order.sorted(rows, (row, at) => [row.run, null, row.difference, row.p_adjusted ?? row.p, row.better, row.worse, row.n][at]).map((row) => {
              const { run, difference, low, high } = row;
              const p = row.p_adjusted ?? row.p;
              const clear = p === null ? low !== null && high !== null && (low > 0 || high < 0) : p < 0.05;
              const open = (kind: "better" | "worse") => (row[kind] ? <a href={link({ change: `${kind}:${run}` })}>{counted(row[kind])}</a> : "0");
              return (
                <tr key={run}>
                  <th scope="row"><T t={run} /></th>
                  <td class="wide"><Dot {...{ low, high, axis: ends }} value={difference} mark={0} hollow={!clear} /></td>
                  <td class="nowrap" data-label={heads[2][0]}>
                    {difference === null ? "–" : <b>{points(difference)}</b>}
                    {low !== null && high !== null && <small> {points(low)} to {points(high)}</small>}
                  </td>
                  <td class="nowrap" data-label={adjusted ? "p (Holm)" : "p"}>{p === null ? "–" : probability(p)}</td>
                  <td data-label="better">{open("better")}</td>
                  <td data-label="worse">{open("worse")}</td>
                  <td class="figure" data-label="instances">{counted(row.n)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {children && <details><summary>By group, and each run against each other</summary>{children}</details>}
      {comparison.notes.length > 0 && (
        <details><summary>How the runs are compared</summary>{comparison.notes.map((text, at) => <p class="note" key={at}><T t={text} /></p>)}</details>
      )}
    </Section>
  );
}

export function Differences({ overview }: { overview: Overview }) {
  if (!overview.differences) return null;
  return (
    <Section id="differences" title="What the runs differ in">
      <DataTable table={overview.differences} hideTitle stacked />
    </Section>
  );
}
