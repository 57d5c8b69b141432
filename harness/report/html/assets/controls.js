/* The controls of the filters, with the choices that the attempts offer. */

class Controls {
  /**
   * @param {Archive} archive
   * @param {(changes: Partial<State>) => void} change
   */
  constructor(archive, change) {
    this.archive = archive;
    this.change = change;
    this.selects = [];
    const box = byId("choices");
    if (archive.runs.length > 1) box.append(this.#runs());
    for (const control of this.#all()) box.append(control);
  }

  #all() {
    const { archive } = this;
    const there = (column, values) => values.filter((_, code) => column.includes(code));
    const rounds = [...new Set(archive.rows.round)].sort((a, b) => a - b);
    const verdicts = Object.entries(VERDICTS)
      .filter(([code]) => archive.rows.passed.includes(Number(code)))
      .map(([, name]) => name);
    const outcomes = there(archive.rows.outcome, archive.outcomes);
    const controls = [
      this.#select("Verdict", "any", options(verdicts), "verdict"),
      this.#select("Outcome", "any", options(outcomes), "outcome"),
    ];
    if (rounds.length > 1) {
      const choices = [
        ["last", "last of each sample"],
        ["every", "every round"],
        ...rounds.map((round) => [String(round), `round ${round}`]),
      ];
      controls.push(this.#select("Round", null, choices, "round"));
    }
    if (archive.changes.length) {
      controls.push(this.#select("Against the baseline", "any", this.#changes(), "change"));
    }
    for (const label of archive.labels) {
      if (label.groups.length > 1) controls.push(this.#group(label));
    }
    return controls;
  }

  #changes() {
    const { archive } = this;
    return archive.changes.flatMap(({ run, better, worse }) => {
      const { name } = archive.runs[run];
      const of = archive.changes.length > 1 ? `${name}: ` : "";
      return [
        [`better:${name}`, `${of}better (${counted(better.length)})`],
        [`worse:${name}`, `${of}worse (${counted(worse.length)})`],
      ];
    });
  }

  #runs() {
    this.boxes = this.archive.runs.map(({ name }) => {
      const box = element("input", { type: "checkbox" });
      box.addEventListener("change", () => this.change({ runs: this.#chosenRuns() }));
      return [name, box];
    });
    return element(
      "fieldset",
      {},
      element("legend", {}, "Runs"),
      element(
        "div",
        {},
        ...this.boxes.map(([name, box]) => element("label", {}, box, element("bdi", {}, name))),
      ),
    );
  }

  /** The selected runs; empty, which shows all runs, if all or none are selected. */
  #chosenRuns() {
    const chosen = this.boxes.filter(([, box]) => box.checked).map(([name]) => name);
    return chosen.length === this.boxes.length ? [] : chosen;
  }

  #group(label) {
    return this.#select(label.name, "any", options(label.groups), null, (state, group) => {
      const { [label.name]: _, ...others } = state.groups;
      return { groups: group === "" ? others : { ...others, [label.name]: group } };
    }, (state) => state.groups[label.name] ?? "");
  }

  /**
   * @param {string | null} any label for no choice; null if there always is one
   * @param {Array<[string, string]>} choices value and label
   */
  #select(
    title,
    any,
    choices,
    key,
    changes = (_, value) => ({ [key]: value }),
    value = (state) => state[key],
  ) {
    const id = `choice-${this.selects.length}`;
    const select = element("select", { id });
    const every = any === null ? choices : [["", any], ...choices];
    every.forEach(([, name], at) => select.append(element("option", { value: at }, visible(name))));
    select.addEventListener("change", () => {
      const [chosen] = every[Number(select.value)];
      this.change(changes(this.state, chosen));
    });
    this.selects.push((state) => {
      const at = every.findIndex(([each]) => each === value(state));
      select.value = at < 0 ? "" : String(at);
      select.toggleAttribute("data-set", at !== 0);
    });
    return element("div", { class: "choice" }, element("label", { for: id }, title), select);
  }

  /** Update the controls to match the state. @param {State} state */
  show(state) {
    this.state = state;
    for (const [name, box] of this.boxes ?? []) {
      box.checked = !state.runs.length || state.runs.includes(name);
    }
    for (const show of this.selects) show(state);
    const query = byId("query");
    if (document.activeElement !== query) query.value = state.query;
  }
}

/** Choices whose labels are their values. */
function options(values) {
  return values.map((value) => [value, value]);
}
