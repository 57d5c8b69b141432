/* The grid: a row per case, a column per run; its filters, its search and its order. */

import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { cellId, List } from "./list";
import { type Case, type CaseCell, type Index, kindOf, type Overview, SIGNS, VERDICTS } from "./model";
import type { Found } from "./source";
import { go, gridLink, nothingChosen, nothingOpen, type State } from "./state";
import { SortButton } from "./table";
import { counted, isReason, pattern, several, T, visible, wordsOf } from "./text";

type Choices = [value: string, text: string][];

function Select({ label, value, choices, onChange }: { label: string; value: string; choices: Choices; onChange: (value: string) => void }) {
  const at = choices.findIndex(([each]) => each === value);
  const id = `choice-${label}`;
  return (
    <div class="choice">
      <label for={visible(id)}><T t={label} /></label>
      <select
        id={visible(id)} value={at < 0 ? "" : String(at)} data-set={at === 0 ? undefined : ""}
        onChange={(event) => onChange(choices[Number(event.currentTarget.value)]![0])}
      >
        {choices.map(([, text], number) => <option key={number} value={String(number)}>{visible(text)}</option>)}
      </select>
    </div>
  );
}

const plain = (values: string[], any = "any"): Choices => [["", any], ...values.map((each): [string, string] => [each, each])];

function Runs({ index, state }: { index: Index; state: State }) {
  const names = index.runs.map(({ name }) => name);
  const on = (name: string) => !state.run.length || state.run.includes(name);
  const press = (name: string) => {
    const chosen = names.filter((each) => (each === name ? !on(each) : on(each)));
    go({ run: chosen.length === names.length ? [] : chosen });
  };
  return (
    <fieldset>
      <legend>Runs</legend>
      <div>
        {names.map((name) => (
          <label key={name}>
            <input type="checkbox" checked={on(name)} onChange={() => press(name)} /> <bdi><T t={name} /></bdi>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

export function Controls({ index, overview, state }: { index: Index; overview: Overview; state: State }) {
  const several = index.runs.length > 1;
  const names = index.runs.map(({ name }) => name);
  const select = (label: string, key: Exclude<keyof State, "place" | "run" | "groups" | "tables" | "open" | "sample" | "at">, choices: Choices, least = 3) =>
    (choices.length >= least || state[key] !== "") && <Select label={label} value={state[key]} choices={choices} onChange={(value) => go({ [key]: value })} />;
  const compared = index.compared?.round;
  const rounds: Choices = [
    ["", compared ? `up to round ${compared}, as compared` : "last of each sample"],
    ...(compared ? [["last", "last of each sample"] as [string, string]] : []),
    ["any", "any round"],
    ...Array.from({ length: index.rounds - 1 }, (_, at): [string, string] => [String(at + 1), `up to round ${at + 1}`]),
  ];
  const changes = index.changes.flatMap(({ run, better, worse }): Choices => {
    const name = names[run]!;
    const of = index.changes.length > 1 ? `${name}: ` : "";
    return [
      ...(better ? [[`better:${name}`, `${of}better (${counted(better)})`] as [string, string]] : []),
      ...(worse ? [[`worse:${name}`, `${of}worse (${counted(worse)})`] as [string, string]] : []),
    ];
  });
  const outcomes = index.outcomes.filter((name) => overview.runs.some((run) => run.outcomes[name]));
  const leastScores = index.scores.every(({ verdict }) => verdict) ? 3 : 2; // a single verdict is the overall one
  const judged = !overview.runs.some((run) => run.not_judged || run.outcomes.error);
  const verdicts = Object.values(VERDICTS).filter((name) => name !== VERDICTS[-1] || !judged || state.score || state.verdict === name);
  const orders: Choices = [
    ["", "as in the runs"],
    ["name", "by name"],
    ["-name", "by name, from Z"],
    ...(several ? [["fails", "most failures first"], ["-fails", "fewest failures first"]] as Choices : []),
    ...names.flatMap((name): Choices => [[name, `${name}, lowest first`], [`-${name}`, `${name}, highest first`]]),
  ];
  // A filter with one choice besides "any" distinguishes nothing, unless the choice excludes something.
  return (
    <div class="choices">
      {several && <Runs index={index} state={state} />}
      {select("Score", "score", plain(index.scores.map(({ name }) => name), "overall verdict"), leastScores)}
      {select("Verdict", "verdict", plain(verdicts))}
      {select("Outcome", "outcome", plain(outcomes))}
      {select("Reason of failure", "reason", plain(index.reasons.map(({ text }) => text)))}
      {several && select("In run", "where", plain(names))}
      {several && select("Verdicts of runs", "differ", [["", "any"], ["1", "differ"]], 2)}
      {index.rounds > 1 && select("Round", "round", rounds)}
      {select("Against the baseline", "change", [["", "any"], ...changes], 2)}
      {index.labels.map(({ name, groups }) =>
        groups.length > 1 && (
          <Select
            key={name} label={name} value={state.groups.get(name) ?? ""}
            choices={[["", "any"], ...groups.map((group): [string, string] => [group, explained(overview, name, group)])]}
            onChange={(value) => {
              const chosen = new Map(state.groups);
              if (value) chosen.set(name, value);
              else chosen.delete(name);
              go({ groups: chosen });
            }}
          />
        ),
      )}
      {select("Order", "sort", orders)}
    </div>
  );
}

/** A group's name, with what it means. */
function explained(overview: Overview, label: string, group: string) {
  const meaning = overview.groups[label]?.[group];
  return meaning ? `${group}: ${meaning}` : group;
}

function Query({ found, state, cancel }: { found: Found | null; state: State; cancel: () => void }) {
  const box = useRef<HTMLInputElement>(null);
  const typing = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    if (document.activeElement !== box.current) box.current!.value = state.q;
  }, [state.q]);
  const running = Boolean(found?.running && state.q);
  return (
    <div class="search">
      <label for="query" class="hidden">Search ids, prompts, answers, reasons and feedback</label>
      <input
        id="query" type="search" ref={box} placeholder="Search ids, prompts, answers, reasons, feedback"
        autocomplete="off" spellcheck={false} aria-keyshortcuts="/" aria-describedby="found"
        onInput={(event) => {
          const { value } = event.currentTarget;
          clearTimeout(typing.current);
          typing.current = setTimeout(() => go({ q: value.trim() }), 250);
        }}
      />
      {running && <progress max="1" value={found!.done} aria-label="Searched" />}
      <button type="button" id="cancel" class="quiet" hidden={!running} onClick={cancel}>Cancel the search</button>
    </div>
  );
}

function told(found: Found | null, query: string) {
  if (!found) return "Reading the attempts…";
  const nothing = !found.cases && !found.running;
  const text = nothing ? "Nothing matches" : `${several(found.cases, "sample")} of ${several(found.instances, "instance")}`;
  const searched = `${Math.floor(100 * found.done)}%`;
  if (found.running && query) return `${text}, ${searched} searched`;
  if (found.done < 1 && query) return `${text}; the search was cancelled at ${searched}`;
  return nothing ? `${text}.` : text;
}

export const narrow = signal(false);
const width = matchMedia("(max-width: 700px)");
narrow.value = width.matches;
width.addEventListener("change", () => (narrow.value = width.matches));

function Verdict({ cell }: { cell: CaseCell }) {
  if (cell.value !== null) return <span class="value">{Number(cell.value.toPrecision(3))}</span>;
  return <span class={`verdict ${kindOf(cell.verdict)}`} role="img" aria-label={VERDICTS[cell.verdict]}>{SIGNS[cell.verdict]}</span>;
}


/** The active cell, which stays while a case is open. */
const active = signal<[number, number]>([0, 0]);

export function Grid({ index, overview, state, found, cancel }: { index: Index; overview: Overview; state: State; found: Found | null; cancel: () => void }) {
  const shown = index.runs.map(({ name }, run) => ({ name, run })).filter(({ name }) => !state.run.length || state.run.includes(name))
    .sort((a, b) => Number(b.name === state.where) - Number(a.name === state.where)); // the run that was asked for first
  const chosen = gridLink(state);
  const clear = chosen !== gridLink(nothingChosen());
  const count = found?.cases ?? 0;
  const nothing = found !== null && !count && !found.running;
  const [row, column] = [Math.min(active.value[0], Math.max(0, count - 1)), Math.min(active.value[1], shown.length)];
  const [grid] = useState(chosen);
  useEffect(() => {
    if (chosen !== grid) active.value = [0, 0]; // other filters: from the beginning
  }, [chosen]);

  const focusing = useRef(false); // once there is a list again
  useEffect(() => {
    const list = document.getElementById("list");
    if (!focusing.current || !list) return;
    focusing.current = false;
    list.focus();
  });

  const open = (at: number, column: number) => {
    const one = found?.get(at);
    if (!one) return;
    const run = shown[column - 1];
    const round = (run && one.cells[run.run]?.round) ?? 0;
    go({ ...nothingOpen, open: one.instance, sample: one.sample, of: run?.name ?? "", at: round }, true);
  };
  const sorted = (key: string) => (state.sort === key ? "ascending" : state.sort === `-${key}` ? "descending" : undefined);
  const sort = (key: string) => go({ sort: state.sort === key ? `-${key}` : state.sort === `-${key}` ? "" : key });
  const heading = (text: string, key: string) => (
    <span role="columnheader" key={key} aria-sort={sorted(key)}><SortButton heading={text} sort={sorted(key)} onSort={() => sort(key)} /></span>
  );

  const cellOf = (at: number, number: number, content: preact.ComponentChildren, kind: string) => (
    <span
      id={cellId(at, number)} key={number} class={kind} role={number ? "gridcell" : "rowheader"} aria-colindex={number + 1}
      aria-selected={at === row && number === column}
    >
      {content}
    </span>
  );
  const find = useMemo(() => pattern(wordsOf(state.q)), [state.q]);
  const ofReason = useMemo(() => isReason(state.reason), [state.reason]);
  /** Why an attempt failed, beginning with the reason that the list is filtered by. */
  const inOrder = ({ told, match }: CaseCell) => {
    if (!state.reason || !match) return told;
    const first = told.filter(ofReason);
    return [...(first.length ? first : [state.reason]), ...told.filter((text) => !ofReason(text))];
  };
  const asCompared = !state.score && (!state.round || state.round === String(index.compared?.round ?? "last"));
  const draw = (at: number) => {
    const one: Case | undefined = found?.get(at);
    if (!one) return cellOf(at, 0, "…", "id");
    const groups = one.groups.filter((group, at) => group !== null && index.labels[at]!.groups.length > 1).join(" · ");
    const meanings = one.groups.flatMap((group, at) => overview.groups[index.labels[at]?.name ?? ""]?.[group ?? ""] ?? []);
    const name = (
      <>
        <b><T t={one.instance} find={find} /></b>
        <small>{index.samples > 1 && `sample ${one.sample}${groups && " · "}`}<span class="groups" title={meanings.length ? visible(meanings.join("; ")) : undefined}><T t={groups} /></span></small>
      </>
    );
    return [
      cellOf(at, 0, name, "id"),
      ...shown.map(({ name, run }, number) => {
        const cell = one.cells[run];
        if (!cell) return cellOf(at, number + 1, <small class="none">no attempt</small>, "cell");
        const outcome = index.outcomes[cell.outcome]!;
        const change = asCompared ? one.changes[run] : null;
        const ofScore = cell.told.filter((text) => text.startsWith(`${state.score}:`));
        const why = cell.verdict === 0 ? (state.score && ofScore.length ? ofScore : inOrder(cell)).join("; ") : "";
        const kind = outcome !== "ok" && <><span class={outcome === "error" ? "badge" : "badge bad"}>{outcome}</span> </>;
        const marks = (
          <>
            {change && <><span class={`change ${change}`} title={`${change} than the baseline on this instance`}>{change === "better" ? "▲" : "▼"} {index.samples > 1 && "instance "}{change}</span> </>}
            {index.rounds > 1 && cell.round > 1 && <><span class="tag">round {cell.round}</span> </>}
          </>
        );
        const ofRun = narrow.value && shown.length > 1 && <span class="run"><T t={name} /> </span>;
        const content = (
          <>
            <Verdict cell={cell} />
            <span class="told">
              {why && <span class="why" title={visible(why)}>{ofRun}{kind}{narrow.value && marks}<span class="failed"><T t={why} find={find} /></span></span>}
              {!(why && narrow.value) && <span class="snippet">{!why && <>{ofRun}{kind}</>}{marks}<T t={cell.snippet} find={find} /></span>}
            </span>
          </>
        );
        return cellOf(at, number + 1, content, cell.match ? "cell" : "cell dim");
      }),
    ];
  };

  const height = narrow.value ? 46 + 30 * shown.length : shown.length > 1 ? 64 : 52;
  return (
    <div id="browser" class={`grid ${nothing ? "nothing" : ""}`} style={{ "--runs": String(Math.max(1, shown.length)) }}>
      <form role="search" aria-label="Filter the samples" onSubmit={(event) => event.preventDefault()}>
        <Query found={found} state={state} cancel={cancel} />
        {/* Narrow screens fold the filters; on wide ones the summary is not shown. */}
        <details class="filters" open={!narrow.value || undefined}>
          <summary>Filters and order</summary>
          <Controls index={index} overview={overview} state={state} />
        </details>
      </form>
      <div class="found">
        <p id="found" role="status">{told(found, state.q)}</p>
        {clear && (
          <button
            type="button" id="clear" class="quiet"
            onClick={() => {
              (document.getElementById("query") as HTMLInputElement).value = "";
              go({ ...nothingChosen(), tables: state.tables });
              focusing.current = true;
            }}
          >
            Clear the filters
          </button>
        )}
      </div>
      {!nothing && (
        <List
          label="Samples" count={count} height={height} columns={shown.length + 1} active={[row, column]}
          head={[heading("instance", "name"), ...shown.map(({ name }) => heading(name, name))]}
          draw={draw} onActive={(...to) => (active.value = to)} onOpen={open}
        />
      )}
      <p id="keys" class="note">Arrow keys, Page Up and Down, Home and End move; Enter opens, Escape goes back; <kbd>/</kbd> searches.</p>
    </div>
  );
}
