/* The state of the attempts browser, as a link: #attempts?verdict=failed&q=words */

/**
 * @typedef {Object} State
 * @property {string[]} runs names; empty for all
 * @property {string} verdict passed, failed, not judged; empty for any
 * @property {string} outcome empty for any
 * @property {string} round last, every, or a number
 * @property {string} change better:RUN or worse:RUN, against the baseline; empty for any
 * @property {Object<string, string>} groups label to group
 * @property {string} query
 * @property {string | null} open instance that is open, or null
 * @property {number} sample open sample of that instance
 * @property {string} of run whose attempt the link requests
 * @property {number} at round that the link requests; 0 for none
 * @property {string} left run on the left, if two are side by side
 * @property {string} right run on the right
 */

const ATTEMPTS = "#attempts";
const IN = "in.";

/** @returns {State} */
function nothingChosen() {
  return {
    runs: [],
    verdict: "",
    outcome: "",
    round: "last",
    change: "",
    groups: Object.create(null), // a label may have the name of anything
    query: "",
    ...nothingOpen(),
  };
}

function nothingOpen() {
  return { open: null, sample: 0, of: "", at: 0, left: "", right: "" };
}

/** @returns {State | null} null if the link leads to another part of the page */
function readState(hash) {
  if (!hash.startsWith(`${ATTEMPTS}?`)) return null;
  const told = new URLSearchParams(hash.slice(ATTEMPTS.length + 1));
  const state = nothingChosen();
  const number = (name) => Math.max(0, Number.parseInt(told.get(name) ?? "0", 10) || 0);
  state.runs = told.getAll("run");
  for (const name of ["verdict", "outcome", "change", "of", "left", "right"]) {
    state[name] = told.get(name) ?? "";
  }
  state.round = told.get("round") ?? "last";
  state.query = told.get("q") ?? "";
  state.open = told.get("open");
  state.sample = number("sample");
  state.at = number("at");
  for (const [name, value] of told) {
    if (name.startsWith(IN)) state.groups[name.slice(IN.length)] = value;
  }
  return state;
}

/** @param {State} state */
function writeState(state) {
  const told = new URLSearchParams();
  for (const run of state.runs) told.append("run", run);
  for (const name of ["verdict", "outcome", "change"]) if (state[name]) told.set(name, state[name]);
  if (state.round !== "last") told.set("round", state.round);
  for (const [label, group] of Object.entries(state.groups)) told.set(IN + label, group);
  if (state.query) told.set("q", state.query);
  if (state.open !== null) {
    told.set("open", state.open);
    told.set("sample", String(state.sample));
    for (const name of ["of", "left", "right"]) if (state[name]) told.set(name, state[name]);
    if (state.at) told.set("at", String(state.at));
  }
  return `${ATTEMPTS}?${told}`;
}
