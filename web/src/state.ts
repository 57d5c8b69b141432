/* The state of the page as a link: a place in it, the filters of the grid, the open sample, and the
   order of tables: #attempts?verdict=failed&q=words */

import { signal } from "@preact/signals";

const GRID = "attempts";
const IN = "in.";
const SORT = "sort.";
const TEXTS = ["where", "score", "verdict", "outcome", "round", "reason", "change", "differ", "q", "sort"] as const;
const OPEN = ["of", "left", "right", "diff"] as const;

type Names = (typeof TEXTS)[number] | (typeof OPEN)[number];
export interface State extends Record<Names, string> {
  /** The id of the section that a link leads to. */
  place: string;
  run: string[];
  /** The column by which a table is sorted, by its title; with - in front from the largest. */
  tables: Map<string, string>;
  groups: Map<string, string>;
  /** The instance that is open; null for none. */
  open: string | null;
  sample: number;
  /** The round that a link asks for; 0 for none. */
  at: number;
}

const nothingOpen = { open: null, sample: 0, at: 0, of: "", left: "", right: "", diff: "" };
export { nothingOpen };

export function nothingChosen(): State {
  const texts = Object.fromEntries(TEXTS.map((name) => [name, ""])) as Record<Names, string>;
  return { ...texts, place: GRID, run: [], groups: new Map(), tables: new Map(), ...nothingOpen };
}

/** Returns null if a link says nothing of the state, but leads to a section. */
export function readState(hash: string): State | null {
  const [, place, rest] = /^#([^?]+)\?(.*)$/su.exec(hash) ?? [];
  if (!place) return null;
  const told = new URLSearchParams(rest);
  const number = (name: string) => Math.max(0, Number.parseInt(told.get(name) ?? "0", 10) || 0);
  const state = nothingChosen();
  state.place = place;
  for (const name of [...TEXTS, ...OPEN]) state[name] = told.get(name) ?? "";
  state.run = told.getAll("run");
  state.open = told.get("open");
  state.sample = number("sample");
  state.at = number("at");
  for (const [name, value] of told) {
    if (name.startsWith(IN)) state.groups.set(name.slice(IN.length), value);
    if (name.startsWith(SORT)) state.tables.set(name.slice(SORT.length), value);
  }
  return state;
}

export function parameters(state: Partial<State>): URLSearchParams {
  const told = new URLSearchParams();
  for (const run of state.run ?? []) told.append("run", run);
  for (const name of TEXTS) if (state[name]) told.set(name, state[name]);
  for (const [label, group] of state.groups ?? []) told.set(IN + label, group);
  for (const [table, column] of state.tables ?? []) told.set(SORT + table, column);
  if (state.open != null) {
    told.set("open", state.open);
    told.set("sample", String(state.sample ?? 0));
    for (const name of OPEN) if (state[name]) told.set(name, state[name]);
    if (state.at) told.set("at", String(state.at));
  }
  return told;
}

export const link = (state: Partial<State>) => `#${state.place ?? GRID}?${parameters(state)}`;

/** The link to a section that keeps the state of the rest of the page. */
export function linkTo(place: string, state: State) {
  const told = parameters({ ...state, ...nothingOpen }).toString();
  return `#${place}${told && `?${told}`}`;
}

/** The link to what the grid shows, without the rest of the page's state. */
export const gridLink = (state: State) => link({ ...state, ...nothingOpen, place: GRID, tables: new Map() });

export const state = signal<State>(readState(location.hash) ?? nothingChosen());

/** Change the state, and the page's link; `step` if Back shall undo the change. */
export function go(changes: Partial<State>, step = false) {
  // Back should restore the grid as it was, which the link may not reflect yet.
  if (step) history.replaceState(history.state, "", link(state.value));
  state.value = { ...state.value, place: GRID, ...changes };
  if (step) history.pushState({ opened: true }, "", link(state.value));
  else history.replaceState(history.state, "", link(state.value));
}

export function close() {
  if ((history.state as { opened?: boolean } | null)?.opened) history.back();
  else go(nothingOpen);
}

/** Follow links and Back. `arrived` is called when a link led to another state. */
export function followLinks(arrived: () => void) {
  let left = 0; // where the reader was before a link opened a case
  const follow = () => {
    const next = readState(location.hash);
    if (!next) {
      if (state.value.open === null) return arrived();
      state.value = { ...state.value, ...nothingOpen };
      const top = left;
      requestAnimationFrame(() => scrollTo({ top, behavior: "instant" }));
      return;
    }
    if (link(next) === link(state.value)) return;
    if (next.open !== null && state.value.open === null) left = scrollY;
    const { tables } = state.value;
    if (!next.tables.size && tables.size) { // tables stay sorted, whatever a link leads to
      next.tables = tables;
      history.replaceState(history.state, "", link(next));
    }
    state.value = next;
    arrived();
  };
  addEventListener("hashchange", follow);
  addEventListener("popstate", follow);
}
