/* An open sample of an instance: its prompt and rounds, of two runs side by side. */

/** Characters of a text to show before "show all" is pressed. */
const FIRST_PART = 20_000;

/**
 * @param {Archive} archive
 * @param {State} state
 * @param {number} instance its index
 * @param {Object} entry its texts (`Archive.texts`)
 * @returns {DocumentFragment}
 */
function drawSample(archive, state, instance, entry) {
  const runs = sides(archive, state, instance);
  const found = runs.map((run) => sampleOf(archive, entry, instance, run, state.sample));
  const counts = found.map((rounds) => roundThatCounts(archive, rounds));
  const whole = document.createDocumentFragment();
  const last = Math.max(0, ...found.flatMap((rounds) => [...rounds.keys()]));
  if (last > 1) whole.append(drawTurns(archive, runs, found, counts));
  whole.append(drawPrompts(archive, entry, runs, found, state.query));
  const attempt = (side, round) => {
    const run = runs[side];
    const asked = last > 1 && round === state.at && archive.runs[run].name === state.of;
    const compared = last > 1 && archive.compared !== null && round === counts[side];
    return drawAttempt(archive, found[side].get(round), {
      title: titled(archive, run, last > 1 ? round : 0),
      asked,
      mark: compared ? COMPARED : "",
      recorded: archive.runs[run].recorded,
      side,
      round,
      query: state.query,
    });
  };
  const row = (columns) =>
    whole.append(element("div", { class: "columns", "data-columns": columns.length }, ...columns));
  // The compared attempts come first, side by side, although their rounds may differ.
  row(
    runs.map((run, side) =>
      counts[side] ? attempt(side, counts[side]) : missing(archive.runs[run].name, found[side], 1),
    ),
  );
  if (last > 1) whole.append(element("h4", { class: "others" }, "The other rounds"));
  for (let round = 1; round <= last; round++) {
    const others = found.map((rounds, side) => rounds.has(round) && counts[side] !== round);
    if (!others.includes(true)) continue;
    row(
      runs.map((run, side) => {
        if (others[side]) return attempt(side, round);
        if (counts[side] === round) return above(archive.runs[run].name, round);
        if (!found[side].size) return element("div"); // the first row says so
        return missing(archive.runs[run].name, found[side], round);
      }),
    );
  }
  return whole;
}

const COMPARED = "compared";

/** A run's last round, up to the compared one; 0 if the run has no attempt. */
function roundThatCounts(archive, rounds) {
  const upTo = archive.compared?.round ?? Infinity;
  return Math.max(0, ...[...rounds.keys()].filter((round) => round <= upTo));
}

function above(run, round) {
  return element("p", { class: "missing" }, element("b", {}, run), ` round ${round} is above.`);
}

/** The verdicts of each run's rounds, linked to the rounds. */
function drawTurns(archive, runs, found, counts) {
  const lines = runs.map((run, side) => {
    const links = [...found[side]].map(([round, { row }]) => {
      const verdict = archive.verdict(row);
      const mark = archive.compared && round === counts[side] ? COMPARED : "";
      const button = element(
        "button",
        {
          type: "button",
          class: verdict.replace(" ", "-"),
          "data-mark": mark || null,
          "aria-label": `To round ${round}, ${verdict}${mark && `, ${mark}`}`,
        },
        `${round} ${SIGNS[verdict]}${mark && ` ${mark}`}`,
      );
      button.addEventListener("click", () => toRound(round, side));
      return button;
    });
    const name = archive.runs.length > 1 ? archive.runs[run].name : "Rounds";
    return element("li", {}, element("span", { class: "name" }, name), ...links);
  });
  return element("ul", { class: "turns" }, ...lines);
}

function toRound(round, side) {
  const attempt = byId("open").querySelector(`[data-side="${side}"][data-round="${round}"]`);
  attempt.scrollIntoView({ behavior: "instant" });
  attempt.focus({ preventScroll: true });
}

/** The numbers of the one or two runs to show. */
function sides(archive, state, instance) {
  const every = archive.runs.map((_, run) => run);
  if (every.length < 3) return every;
  const number = (name) => archive.runs.findIndex((run) => run.name === name);
  const baseline = archive.changes[0]?.baseline ?? 0;
  const asked = number(state.of);
  const left = number(state.left) >= 0 ? number(state.left) : baseline;
  if (number(state.right) >= 0) return [left, number(state.right)];
  return [left, asked >= 0 && asked !== left ? asked : every.find((run) => run !== left)];
}

/** A run's attempts at a sample, by round. */
function sampleOf(archive, entry, instance, run, sample) {
  const { rows, first } = archive;
  const found = new Map();
  for (let row = first[instance]; row < first[instance + 1]; row++) {
    if (rows.run[row] !== run || rows.sample[row] !== sample) continue;
    found.set(rows.round[row], { row, ...entry.attempts[row - first[instance]] });
  }
  return found;
}

function drawPrompts(archive, entry, runs, found, query) {
  const numbers = found.map((rounds) => rounds.get(1)?.prompt);
  const there = runs.map((_, side) => side).filter((side) => numbers[side] !== undefined);
  const same = new Set(there.map((side) => numbers[side])).size < 2;
  const prompts = (same ? there.slice(0, 1) : there).map((side) => {
    const title = element("h4", {}, same ? "Prompt" : `Prompt of ${archive.runs[runs[side]].name}`);
    const messages = entry.prompts[numbers[side]];
    const alone = messages.length === 1 && messages[0][0] === "user";
    return element(
      "section",
      { class: "prompt" },
      element("header", {}, title),
      ...messages.map(([role, text]) => part(alone ? null : role, textBlock(text, query))),
    );
  });
  return element("div", { class: "columns", "data-columns": prompts.length || 1 }, ...prompts);
}

/** Title of an attempt: its run and its round, if there are several. */
function titled(archive, run, round) {
  const told = archive.runs.length > 1 ? [archive.runs[run].name] : [];
  if (round) told.push(`round ${round}`);
  return told.join(" · ") || "Answer";
}

/** Why a run has no attempt here; empty if the previous round already said so. */
function missing(run, rounds, round) {
  const last = Math.max(0, ...rounds.keys());
  if (round > last + 1) return element("div");
  const why = last ? `ended with round ${last}.` : "has no such sample.";
  return element("p", { class: "missing" }, element("b", {}, run), ` ${why}`);
}

/**
 * @param {Object} told title; asked, whether a link requested the attempt; mark, the text next
 *   to the title; recorded, whether the run was replayed; side; round; query
 */
function drawAttempt(archive, attempt, { title, asked, mark, recorded, side, round, query }) {
  const verdict = archive.verdict(attempt.row);
  const outcome = archive.outcomes[archive.rows.outcome[attempt.row]];
  const said = outcome === "ok" ? verdict : `${outcome}, ${verdict}`;
  const kind = verdict.replace(" ", "-");
  return element(
    "article",
    {
      class: "attempt",
      "data-verdict": kind,
      "data-asked": asked,
      "data-side": side,
      "data-round": round,
      tabindex: -1,
      "aria-label": `${title}: ${said}${mark && `, ${mark}`}`,
    },
    element(
      "header",
      {},
      element("h4", {}, title),
      mark ? element("span", { class: "mark" }, mark) : null,
      element("span", { class: `said ${kind}` }, said),
    ),
    attempt.reasoning ? folded("Reasoning", attempt.reasoning, query) : null,
    drawAnswer(attempt.text ?? null, query),
    attempt.error ? part("Error", textBlock(attempt.error, query)) : null,
    ...(attempt.scores ?? []).map((score) => drawScore(score, query)),
    attempt.feedback ? folded("Feedback", attempt.feedback, query) : null,
    part(null, drawFacts(attempt, recorded)),
  );
}

function drawAnswer(text, query) {
  if (text === null) return null;
  if (text === "") return part(null, element("p", { class: "note" }, "An empty answer."));
  return part(null, textBlock(text, query));
}

function drawScore(score, query) {
  const value = score.value === null ? "not judged" : String(score.value);
  const name = element("b", {}, `${score.name}: `);
  const parts = [element("div", { class: "reason", dir: "auto" }, name, value)];
  if (score.reason) parts.push(textBlock(score.reason, query));
  if (score.constraints?.length) parts.push(drawConstraints(score.constraints));
  if (score.details) parts.push(folded("Details", score.details, query));
  return part("Score", ...parts);
}

function drawConstraints(constraints) {
  const verdict = (passed) =>
    element(
      "td",
      { class: `met ${passed === null ? "not-judged" : passed ? "passed" : "failed"}` },
      passed === null ? "?" : passed ? "✓ yes" : "✗ no",
    );
  const headings = ["constraint", "met", "observed", "wanted"].map((name) =>
    element("th", { scope: "col" }, name),
  );
  return element(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Constraints" },
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...headings)),
      element(
        "tbody",
        {},
        ...constraints.map(([constraint, passed, observed, wanted]) =>
          element(
            "tr",
            {},
            element("td", { dir: "auto" }, full(constraint)),
            verdict(passed),
            element("td", { dir: "auto" }, full(observed)),
            element("td", { dir: "auto" }, full(wanted)),
          ),
        ),
      ),
    ),
  );
}

function drawFacts(attempt, recorded) {
  const { usage } = attempt;
  const tokens = usage && `${counted(usage.input_tokens)} in, ${counted(usage.output_tokens)} out`;
  const extra = usage && [
    usage.cached_input_tokens ? `${counted(usage.cached_input_tokens)} cached` : null,
    usage.reasoning_tokens ? `${counted(usage.reasoning_tokens)} reasoning` : null,
  ].filter((each) => each !== null).join(", ");
  const told = {
    finish: attempt.finish,
    tokens: tokens && extra ? `${tokens} (${extra})` : tokens,
    cost: !recorded && typeof attempt.cost === "number" ? `$${Number(attempt.cost.toPrecision(4))}` : null,
    latency: !recorded && typeof attempt.latency === "number" ? seconds(attempt.latency) : null,
    "cost and latency": recorded ? "recorded" : null,
    cached: attempt.cached ? "yes" : null,
    call: attempt.call,
  };
  return element(
    "dl",
    { class: "facts" },
    ...Object.entries(told)
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) =>
        element("div", {}, element("dt", {}, name), element("dd", {}, value)),
      ),
  );
}

function seconds(value) {
  return value < 0.1 ? `${Number((1000 * value).toPrecision(2))} ms` : `${value.toFixed(2)} s`;
}

function part(title, ...children) {
  const heading = title === null ? null : element("h5", {}, title);
  return element("div", { class: "part" }, heading, ...children);
}

function folded(title, text, query) {
  const summary = element("summary", {}, title);
  const wanted = query !== "" && full(text).toLowerCase().includes(query.toLowerCase());
  return element("details", { class: "part", open: wanted }, summary, textBlock(text, query));
}

/** A text of any length: its beginning, and a button for the rest. */
function textBlock(text, query) {
  const there = full(text);
  const box = element("div", { class: "text", dir: "auto" });
  box.append(written(there.slice(0, FIRST_PART), query));
  const whole = element("div", {}, box);
  if (there.length > FIRST_PART) {
    const all = `Show all ${several(there.length, "character")}`;
    const button = element("button", { type: "button", class: "quiet" }, all);
    const more = element("p", { class: "cut" }, "… ", button);
    button.addEventListener("click", () => {
      box.replaceChildren(written(there, query));
      more.remove();
      box.tabIndex = -1;
      box.focus({ preventScroll: true });
    });
    whole.append(more);
  }
  if (typeof text !== "string") {
    const cut = `Cut: the full text has ${several(text.length, "character")}. See attempts.jsonl.`;
    whole.append(element("p", { class: "cut" }, cut));
  }
  return whole;
}
