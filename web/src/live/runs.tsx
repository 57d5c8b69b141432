/* The list of all runs: searched, filtered, and told of changes while runs work. */

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { Badges } from "../table";
import { between, counted, dollars, measured, several, T, visible } from "../text";
import { ago, connected, follow, lasting, type RunSummary, stopRun } from "./server";

const runs = signal<RunSummary[] | null>(null);
const STATES = ["running", "interrupted", "failed", "complete"];

/** What the list shows, as the page's link: #q=words&state=running&chosen=NAME */
const shown = signal(new URLSearchParams(location.hash.slice(1)));
addEventListener("hashchange", () => (shown.value = new URLSearchParams(location.hash.slice(1))));

function show(change: (query: URLSearchParams) => void) {
  const query = new URLSearchParams(shown.value);
  change(query);
  for (const [name, value] of [...query]) if (!value) query.delete(name);
  history.replaceState(null, "", `#${query}`);
  shown.value = query;
}

export const Disconnected = () =>
  connected.value ? null : <p class="warning" role="alert">The server of this page does not answer: it shows the last state.</p>;

export function State({ run }: { run: RunSummary }) {
  const working = run.state === "running" || run.state === "stopping";
  return <span class={`tag state-${working ? "running" : run.state}`}>{run.state}</span>;
}

/** Asks once more before it stops a run. */
export function Stop({ name }: { name: string }) {
  const [step, setStep] = useState<"" | "sure" | "asked">("");
  const [problem, setProblem] = useState("");
  const press = () => {
    if (step !== "sure") return setStep("sure");
    setStep("asked");
    void stopRun(name).then(setProblem);
  };
  if (step === "asked") return <span class="fact" role="status">{problem ? <T t={problem} /> : "stopping after the calls in flight"}</span>;
  return (
    <>
      <button type="button" class="quiet" onClick={press} aria-label={`${step ? "Really stop" : "Stop"} ${visible(name)}`}>{step ? "Really stop?" : "Stop"}</button>
      {step && <button type="button" class="quiet" onClick={() => setStep("")}>No</button>}
    </>
  );
}

export function progress({ done, planned, n }: RunSummary) {
  if (planned === null) return counted(n);
  return `${done === null ? "?" : counted(done)} of ${counted(planned)}`;
}

function Line({ run }: { run: RunSummary }) {
  const chosen = shown.value.getAll("chosen").includes(run.name);
  const choose = () =>
    show((query) => {
      const others = query.getAll("chosen").filter((name) => name !== run.name);
      query.delete("chosen");
      for (const name of chosen ? others : [...others, run.name]) query.append("chosen", name);
    });
  const unit = run.measure === "pass rate" ? "%" : "";
  return (
    <tr>
      <td><input type="checkbox" checked={chosen} onChange={choose} aria-label={`Choose ${visible(run.name)}`} /></td>
      <th scope="row">
        <a href={`/runs/${encodeURIComponent(run.name)}/`}><T t={run.name} /></a>{" "}
        <Badges marks={run.tags.filter((tag) => tag === tag.toUpperCase())} />
        <small>
          <T t={[run.task, run.model].filter(Boolean).join(" · ")} />{" "}
          {run.tags.filter((tag) => tag !== tag.toUpperCase()).map((tag) => (
            <button type="button" class="tag" key={tag} aria-label={`Only runs with ${visible(tag)}`} onClick={() => show((query) => query.set("q", tag))}><T t={tag} /></button>
          ))}
        </small>
        {run.problem && <small class="bad"><T t={run.problem} /></small>}
      </th>
      <td><State run={run} /></td>
      <td class="figure" data-label="Rate">
        {run.rate === null ? "–" : <b>{measured(run.rate, unit)}</b>}
        {run.low !== null && run.high !== null && <small> {between(run.low, run.high, unit)}</small>}
        {!unit && <small> <T t={run.measure} /></small>}
        {run.rate !== null && <small>, n={counted(run.n)}</small>}
      </td>
      <td class="figure" data-label="Samples">
        {progress(run)}
        {run.not_judged > 0 && <small class="bad"> {counted(run.not_judged)} not judged</small>}
        {run.eta_s !== null && <small> {lasting(run.eta_s)} left</small>}
      </td>
      <td class="figure" data-label="Paid">{run.cost_usd === null ? "–" : dollars(run.cost_usd)}</td>
      <td class="figure nowrap" data-label="Started">{ago(run.started_at)}</td>
      <td class="figure nowrap" data-label="Last line">{ago(run.line_at)}</td>
      <td class="nowrap">{run.state === "running" && <Stop name={run.name} />}</td>
    </tr>
  );
}

export function RunsPage() {
  useEffect(() => {
    document.title = "Runs";
    return follow<{ runs: RunSummary[]; names: string[] }>("/api/events", (told) => {
      const known = new Map([...(runs.value ?? []), ...told.runs].map((run) => [run.name, run]));
      runs.value = told.names.map((name) => known.get(name)).filter((run) => run !== undefined);
    });
  }, []);
  const query = shown.value;
  const words = (query.get("q") ?? "").toLowerCase().split(/\s+/u);
  const state = query.get("state") ?? "";
  const chosen = query.getAll("chosen");
  const every = runs.value;
  const found = (every ?? [])
    .filter((run) => !state || run.state === state || (state === "running" && run.state === "stopping"))
    .filter((run) => {
      const text = [run.name, run.task, run.model, ...run.tags].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    })
    .sort((a, b) => (b.started_at ?? 0) - (a.started_at ?? 0));
  const heads = ["State", "Rate", "Samples", "Paid", "Started", "Last line", ""];
  return (
    <main id="main" class="runs-page">
      <Disconnected />
      <h1>Runs</h1>
      <div class="search">
        <input
          type="search" id="query" aria-label="Search runs" placeholder="Name, task, model or tag" value={query.get("q") ?? ""}
          onInput={({ currentTarget }) => show((next) => next.set("q", currentTarget.value))}
        />
        <select aria-label="State" value={state} onChange={({ currentTarget }) => show((next) => next.set("state", currentTarget.value))}>
          <option value="">any state</option>
          {STATES.map((each) => <option key={each} value={each}>{each}</option>)}
        </select>
      </div>
      <div class="found">
        <p role="status">{every ? several(found.length, "run") : "Reading the runs…"}</p>
        {chosen.length > 0 && <a href={`/runs/${chosen.map(encodeURIComponent).join("+")}/`}>Open the {several(chosen.length, "chosen run")} together</a>}
      </div>
      {found.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Runs">
          <table>
            <thead>
              <tr>
                <td />
                <th scope="col">Run</th>
                {heads.map((head, at) => (head ? <th scope="col" class={at ? "figure" : undefined} key={head}>{head}</th> : <td key="stop" />))}
              </tr>
            </thead>
            <tbody>{found.map((run) => <Line key={run.name} run={run} />)}</tbody>
          </table>
        </div>
      )}
    </main>
  );
}
