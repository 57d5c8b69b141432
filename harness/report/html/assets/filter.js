/* Selects the attempts that the list shows. */

/**
 * The numbers of the attempts that match a state, in order.
 * If a link names something that does not exist (such as another report's run), it
 * matches nothing, rather than everything.
 * @param {Archive} archive
 * @param {State} state
 * @param {Uint8Array | null} hits of the search; null without a search
 */
function chosenRows(archive, state, hits) {
  const { rows } = archive;
  const tests = [];
  const test = (column, wanted) => tests.push((row) => column[row] === wanted);
  if (state.runs.length) {
    const wanted = archive.runs.map((run) => state.runs.includes(run.name));
    tests.push((row) => wanted[rows.run[row]]);
  }
  if (state.verdict) {
    const code = Object.keys(VERDICTS).find((each) => VERDICTS[each] === state.verdict);
    test(rows.passed, Number(code ?? NaN));
  }
  if (state.outcome) test(rows.outcome, archive.outcomes.indexOf(state.outcome));
  if (state.round === "last") test(rows.last, 1);
  else if (state.round !== "every") test(rows.round, Number(state.round));
  for (const [name, group] of Object.entries(state.groups)) {
    const label = archive.labels.find((each) => each.name === name);
    const number = label ? label.groups.indexOf(group) : -1;
    tests.push((row) => number >= 0 && label.of[rows.instance[row]] === number);
  }
  if (state.change) {
    const changed = new Set(changedInstances(archive, state.change));
    tests.push((row) => changed.has(rows.instance[row]));
  }
  if (hits) tests.push((row) => hits[row] === 1);
  const found = [];
  for (let row = 0; row < archive.length; row++) {
    if (tests.every((passes) => passes(row))) found.push(row);
  }
  return Int32Array.from(found);
}

/** The instances in which a run is better or worse than the baseline ("better:RUN"). */
function changedInstances(archive, change) {
  const [, what, run] = /^(better|worse):(.*)$/su.exec(change) ?? [];
  const found = archive.changes.find((each) => archive.runs[each.run].name === run);
  return found?.[what] ?? [];
}

/** The number of instances among attempts, which are grouped by instance. */
function instanceCount(archive, found) {
  let count = 0;
  let before = -1;
  for (const row of found) {
    if (archive.rows.instance[row] !== before) count++;
    before = archive.rows.instance[row];
  }
  return count;
}
