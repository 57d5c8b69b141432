/* What the runs of a live page are doing: calls, rates, latency, retries and money over time. */

import { useEffect, useState } from "preact/hooks";
import { link } from "../state";
import { counted, dollars, percent, seconds, several, T, visible } from "../text";
import { Disconnected, progress, State, Stop } from "./runs";
import { ago, asked, type Bins, indexed, lasting, type ListedCall, type LiveRun, pulse, type RunSummary, type Timeline } from "./server";

const WIDTH = 480;
const HEIGHT = 90;

type Series = { name: string; kind: string; values: (number | null)[]; at?: number[]; bars?: boolean };

const clock = (time: number) => new Date(time * 1000).toISOString().slice(11, 19);

type ChartProps = { title: string; series: Series[]; from: number; to: number; unit: (value: number) => string; marks?: [at: number, text: string][] };

/** A small chart over time; the numbers are also told by its label. `marks` are moments to point out. */
function Chart({ title, series, from, to, unit, marks = [] }: ChartProps) {
  const numbers = series.flatMap(({ values }) => values.filter((value) => value !== null));
  if (!numbers.length) return null;
  const most = Math.max(...numbers) || 1;
  const x = (at: number) => (WIDTH * (at - from)) / (to - from || 1);
  const y = (value: number) => HEIGHT - (HEIGHT - 4) * (value / most);
  const last = series.map(({ name, values }) => {
    const value = values.findLast((each) => each !== null) ?? null;
    return `${name} ${value === null ? "–" : unit(value)}`;
  });
  return (
    <figure class="time-chart">
      <h3>{title}</h3>
      <p class="axis-end" aria-hidden="true">{unit(most)}</p>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${title}: highest ${unit(most)}; latest ${last.join(", ")}`} preserveAspectRatio="none">
        {marks.map(([at, text]) => at >= from && at <= to && <line key={at} class="notice" x1={x(at)} x2={x(at)} y1={0} y2={HEIGHT}><title>{visible(text)}</title></line>)}
        {series.map(({ name, kind, values, at, bars }) => {
          const place = (number: number) => x(at ? at[number]! : from + ((number + 0.5) * (to - from)) / values.length);
          if (bars) {
            const width = Math.max(1, WIDTH / values.length - 1);
            return values.map((value, number) =>
              value ? <rect key={`${name}${number}`} class={kind} x={place(number) - width / 2} y={y(value)} width={width} height={HEIGHT - y(value)} /> : null,
            );
          }
          // A line per stretch of known values; a value alone is a short one.
          const line = values.map((value, number) => {
            if (value === null) return "";
            const [left, height] = [place(number), y(value).toFixed(1)];
            const begins = (values[number - 1] ?? null) === null;
            const alone = begins && (values[number + 1] ?? null) === null;
            return `${begins ? "M" : "L"}${(left - (alone ? 2 : 0)).toFixed(1)} ${height}${alone ? "h4" : ""}`;
          });
          return <path key={name} class={kind} d={line.join("")} />;
        })}
      </svg>
      <figcaption>
        {series.map(({ name, kind }, at) => <span key={name}><i class={`key ${kind}`} /> {last[at]} </span>)}
      </figcaption>
    </figure>
  );
}

/** How much a counter rises per second. */
const rises = (values: number[], at: number[]) => values.map((value, place) => (place ? Math.max(0, value - values[place - 1]!) / (at[place]! - at[place - 1]! || 1) : 0));

const running = (values: number[]) => {
  let sum = 0;
  return values.map((value) => (sum += value));
};

function Charts({ bins, timeline }: { bins: Bins; timeline: Timeline }) {
  const { start: from, step_s: step } = bins;
  const to = from + step * bins.attempts.length;
  const per = { 1: "per second", 60: "per minute", 3600: "per hour" }[step] ?? `per ${lasting(step)}`;
  const [passed, judged] = [running(bins.passed), running(bins.judged)];
  const latest = timeline.session === timeline.sessions.length - 1;
  const traffic = latest ? (timeline.status?.traffic ?? []) : [];
  const at = traffic.map(([time]) => time);
  const column = (place: number) => traffic.map((moment) => moment[place]!);
  const span = traffic.length ? ([at[0]!, at.at(-1)!] as const) : ([from, to] as const);
  const whole = (value: number) => counted(Math.round(value));
  const each = (value: number) => String(Number(value.toPrecision(2)));
  const marks = latest ? (timeline.status?.events ?? []) : [];
  const area = { from, to, marks };
  const session = { from: span[0], to: span[1], marks };
  const [again, limited] = [column(3), column(4)];
  return (
    <>
      <p class="note">{clock(from)} to {clock(to)} UTC, {lasting(to - from)}</p>
      <div class="time-charts">
        <Chart title={`Attempts ${per}`} {...area} unit={whole} series={[{ name: "attempts", kind: "plain", values: bins.attempts, bars: true }, { name: "failed calls", kind: "alarm", values: bins.errors, bars: true }]} />
        <Chart title="Pass rate so far" {...area} unit={percent} series={[{ name: "of the samples begun", kind: "plain", values: judged.map((n, place) => (n ? passed[place]! / n : null)) }]} />
        <Chart title="Latency of uncached calls" {...area} unit={seconds} series={[{ name: "95th percentile", kind: "soft", values: bins.p95_s }, { name: "median", kind: "plain", values: bins.median_s }]} />
        <Chart title="Money" {...area} unit={dollars} series={[{ name: "paid for answers", kind: "plain", values: running(bins.cost_usd) }]} />
        {traffic.length > 1 && (
          <>
            <Chart title="Calls" {...session} unit={whole} series={[{ name: "waiting", kind: "soft", at, values: column(2) }, { name: "in flight", kind: "plain", at, values: column(1) }]} />
            <Chart
              title="Calls sent again per second" {...session} unit={each}
              series={[
                { name: `all (${counted(again.at(-1)!)} so far)`, kind: "soft", at, values: rises(again, at) },
                { name: `for a rate limit, 429 (${counted(limited.at(-1)!)})`, kind: "alarm", at, values: rises(limited, at) },
              ]}
            />
          </>
        )}
      </div>
    </>
  );
}

function Calls({ title, calls, of }: { title: string; calls: ListedCall[]; of: string }) {
  if (!calls.length) return null;
  return (
    <div>
      <h3>{title}</h3>
      <ul class="calls-told">
        {calls.map((call) => (
          <li key={`${call.instance} ${call.sample} ${call.round}`}>
            <a href={link({ open: call.instance, sample: call.sample, at: call.round, of })}><T t={call.instance} /></a>{" "}
            <small>sample {call.sample}, round {call.round}</small>{" "}
            {call.latency_s !== null && <b>{seconds(call.latency_s)}</b>} {call.error && <span class="bad"><T t={call.error} /></span>}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Now({ run, timeline }: { run: RunSummary; timeline: Timeline }) {
  const { status } = timeline;
  const working = run.state === "running" || run.state === "stopping";
  const moment = working ? status?.traffic.at(-1) : undefined;
  const facts: [string, string][] = [["samples", progress(run)]];
  if (run.rate !== null) facts.push([working ? "rate so far" : "rate", `${percent(run.rate)} of ${counted(run.n)}`]);
  if (run.not_judged) facts.push(["not judged", counted(run.not_judged)]);
  if (moment) {
    facts.push(["in flight", counted(moment[1])], ["waiting", counted(moment[2])]);
    facts.push(["sent again", `${counted(moment[3])} (${counted(moment[4])} for a rate limit)`]);
  }
  if (run.cost_usd !== null) facts.push(["paid", dollars(run.cost_usd)]);
  if (working && status?.budget_usd != null) facts.push(["budget", `${dollars(status.spent_usd ?? 0)} of ${dollars(status.budget_usd)}`]);
  if (run.eta_s !== null) facts.push(["left", lasting(run.eta_s)]);
  facts.push(["last line", ago(run.line_at)]);
  return (
    <>
      <p class="live-now">
        <b><T t={run.name} /></b> <State run={run} /> {run.state === "running" && <Stop name={run.name} />}
      </p>
      <dl class="facts">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {run.problem && <p class="bad"><T t={run.problem} /></p>}
      {run.limited_by.length > 0 && <p class="note">Limited by <T t={run.limited_by.join("; ")} /></p>}
    </>
  );
}

/** `name`: the run's, as in the grid. */
function Run({ name, run, timeline, choose }: LiveRun & { name: string; choose: (session: number) => void }) {
  const { bins, sessions, status } = timeline;
  return (
    <div class="live-run">
      {run && <Now run={run} timeline={timeline} />}
      {sessions.length > 1 && (
        <p class="choice">
          <label>
            Session{" "}
            <select value={String(timeline.session)} onChange={({ currentTarget }) => choose(Number(currentTarget.value))}>
              {sessions.map(({ started_at: began, ended }, at) => (
                <option key={at} value={String(at)}>{visible(`${at + 1}: ${began ? new Date(began * 1000).toISOString().slice(0, 16).replace("T", " ") : "?"} ${ended ?? ""}`)}</option>
              ))}
            </select>
          </label>
        </p>
      )}
      {bins && <Charts bins={bins} timeline={timeline} />}
      {status && status.events.length > 0 && (
        <details open>
          <summary>{several(status.events.length, "notice")} of the latest session</summary>
          <ul class="calls-told">{status.events.map(([at, text], place) => <li key={place}><small>{clock(at)}</small> <T t={text} /></li>)}</ul>
        </details>
      )}
      <div class="live-calls">
        <Calls title="Slowest calls" calls={timeline.slowest} of={name} />
        <Calls title="Latest failed calls" calls={timeline.failed} of={name} />
      </div>
    </div>
  );
}

/** How far the server is with a large run that it reads for the first time. */
export function Indexing() {
  if (indexed.value === 1) return null;
  return (
    <p class="warning indexing" role="status">
      <progress value={indexed.value} aria-label="Indexed" />
      {Math.floor(100 * indexed.value)}% of the attempts are indexed. Cases, groups and figures follow.
    </p>
  );
}

/** What the runs are doing. */
export function Timelines({ runs: n, prefix, open }: { runs: number; prefix: string; open: boolean }) {
  const [runs, setRuns] = useState<LiveRun[]>([]);
  const [session, choose] = useState(-1);
  const [shown, setShown] = useState(open);
  useEffect(() => {
    if (!shown) return;
    let current = true;
    void asked<LiveRun[]>(`api/timelines?session=${session}`).then((told) => current && setRuns(told), () => undefined);
    return () => { current = false; };
  }, [pulse.value, session, shown]);
  return (
    <section id="timeline" aria-labelledby="timeline-title">
      <Disconnected />
      <h2 id="timeline-title" tabIndex={-1}>Timeline</h2>
      <details open={shown} onToggle={({ currentTarget }) => setShown(currentTarget.open)}>
        <summary>What the {n > 1 ? "runs are" : "run is"} doing, or did</summary>
        {shown && runs.map(({ run, timeline }) => <Run key={timeline.run} name={timeline.run.slice(prefix.length)} {...{ run, timeline, choose }} />)}
      </details>
    </section>
  );
}
