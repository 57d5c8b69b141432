/* Starts the page, and connects its parts. */

class Browser {
  constructor(archive) {
    this.archive = archive;
    this.state = readState(location.hash) ?? nothingChosen();
    this.controls = new Controls(archive, (changes) => this.go(changes));
    this.list = new List(byId("list"), (row) => this.drawRow(row), (row) => this.open(row));
    this.search = new Search(archive, () => this.refilter());
    // There may be more items than a call can have arguments.
    this.samples = archive.rows.sample.some((sample) => sample > 0);
    this.rounds = archive.rows.round.some((round) => round > 1);
    byId("browser").classList.toggle("one-run", archive.runs.length < 2);
    this.listen();
    byId("browser").hidden = false;
    // Before the list existed, the page was too short to scroll to it.
    this.show(location.hash.startsWith(ATTEMPTS));
  }

  listen() {
    let typing;
    const query = byId("query");
    query.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => this.go({ query: query.value.trim() }), 250);
    });
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    byId("cancel").addEventListener("click", () => this.search.cancel());
    byId("clear").addEventListener("click", () => {
      query.value = "";
      this.go(nothingChosen());
      byId("list").focus();
    });
    addEventListener("hashchange", () => this.follow());
    addEventListener("popstate", () => this.follow());
    addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const typing = event.target.closest?.("input, select, textarea");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      if (this.state.open !== null) this.go(nothingOpen());
      byId("query").focus();
      byId("query").select();
    } else if (event.key === "Escape" && this.state.open !== null) {
      this.close();
    } else if (event.key === "Escape" && this.search.running) {
      this.search.cancel();
    }
  }

  /** Update the page after a link was followed or Back was pressed. */
  follow() {
    const state = readState(location.hash);
    if (!state || writeState(state) === writeState(this.state)) return;
    this.state = state;
    this.show(true);
  }

  /**
   * @param {Partial<State>} changes
   * @param {boolean} step whether Back should undo it
   */
  go(changes, step = false) {
    // Back should restore the list as it was, which the link may not reflect yet.
    if (step) history.replaceState(history.state, "", writeState(this.state));
    this.state = { ...this.state, ...changes };
    const link = writeState(this.state);
    if (step) history.pushState({ opened: true }, "", link);
    else history.replaceState(history.state, "", link);
    this.show();
  }

  show(scroll = false) {
    this.controls.show(this.state);
    const searching = this.search.query !== this.state.query;
    if (searching) this.search.begin(this.state.query);
    else this.refilter();
    const { open } = this.state;
    const opened = open !== null;
    const closing = !opened && byId("browser").hidden;
    byId("browser").hidden = opened;
    byId("open").hidden = !opened;
    if (opened) this.drawOpen();
    else if (closing) {
      this.list.show(this.list.rows);
      byId("list").focus({ preventScroll: true });
    }
    if (scroll) byId("attempts").scrollIntoView({ behavior: "instant" });
  }

  /** Show what the filters and the search have found so far. */
  refilter() {
    const { search, archive } = this;
    const rows = chosenRows(archive, this.state, search.hits);
    const nothing = !rows.length && !search.running;
    // Before the list is drawn, since a hidden list draws nothing.
    byId("browser").classList.toggle("nothing", nothing);
    this.list.show(rows);
    const instances = several(instanceCount(archive, rows), "instance");
    const told = nothing
      ? "Nothing matches."
      : `${several(rows.length, "attempt")} of ${instances}`;
    byId("found").textContent = search.running
      ? `${told}, ${Math.floor(100 * search.done)}% searched`
      : search.hits && search.done < 1
        ? `${told.replace(/\.$/u, "")}; the search was cancelled at ${Math.floor(100 * search.done)}%`
        : told;
    byId("progress").hidden = byId("cancel").hidden = !search.running;
    byId("progress").value = search.done;
    const chosen = writeState({ ...this.state, ...nothingOpen() });
    byId("clear").hidden = chosen === writeState(nothingChosen());
  }

  drawRow(row) {
    const { archive } = this;
    const { rows } = archive;
    const instance = rows.instance[row];
    const verdict = archive.verdict(row);
    const outcome = archive.outcomes[rows.outcome[row]];
    const groups = archive.labels
      .filter(({ of }) => of[instance] >= 0)
      .map(({ groups, of }) => groups[of[instance]]);
    const sign = `verdict ${verdict.replace(" ", "-")}`;
    const round = this.rounds ? `round ${rows.round[row]}` : "";
    const sample = `${round ? "s" : "sample"} ${rows.sample[row]}`;
    const turn = (this.samples ? [sample, round] : [round]).filter(Boolean);
    return element(
      "div",
      { class: "row" },
      element("span", { class: sign, role: "img", "aria-label": verdict }, SIGNS[verdict]),
      element("span", { class: "id" }, archive.instances.name[instance]),
      element("span", { class: "run" }, archive.runs[rows.run[row]].name),
      element("span", { class: "turn" }, turn.join(" · ")),
      element("span", { class: "groups" }, groups.join(" · ")),
      element(
        "span",
        { class: "snippet" },
        outcome === "ok" ? null : element("span", { class: "badge" }, outcome),
        outcome === "ok" ? null : " ",
        archive.snippet[row],
      ),
    );
  }

  open(row) {
    const { rows, instances, runs } = this.archive;
    this.list.choose(row);
    this.go(
      {
        ...nothingOpen(),
        left: this.state.left,
        right: this.state.right,
        open: instances.name[rows.instance[row]],
        sample: rows.sample[row],
        of: runs[rows.run[row]].name,
        at: rows.round[row],
      },
      this.state.open === null,
    );
  }

  close() {
    if (history.state?.opened) history.back();
    else this.go(nothingOpen());
  }

  /** The row of the open attempt, or of another attempt of its sample. */
  openRow() {
    const { archive, state } = this;
    const instance = archive.place(state.open);
    if (instance < 0) return -1;
    const { rows, first, runs } = archive;
    let found = -1;
    for (let row = first[instance]; row < first[instance + 1]; row++) {
      if (rows.sample[row] !== state.sample) continue;
      const same = runs[rows.run[row]].name === state.of && rows.round[row] === state.at;
      if (same) return row;
      if (found < 0) found = row;
    }
    return found;
  }

  async drawOpen() {
    const { archive, state } = this;
    const box = byId("open");
    const row = this.openRow();
    if (row < 0) {
      const title = element("h3", { tabindex: -1 }, "Not in this page");
      const why = `This page has no sample ${state.sample} of ${state.open}.`;
      box.replaceChildren(this.steps(row), title, element("p", { class: "note" }, why));
      title.focus({ preventScroll: true });
      return;
    }
    const instance = archive.rows.instance[row];
    const entry = await archive.texts(instance);
    if (state !== this.state) return; // another one was opened meanwhile
    const title = element("h3", { tabindex: -1, dir: "auto" }, state.open);
    const chip = (name, value) => element("li", {}, `${name} `, element("b", {}, value));
    const chips = archive.labels
      .filter(({ of }) => of[instance] >= 0)
      .map(({ name, groups, of }) => chip(name, groups[of[instance]]));
    if (this.samples) chips.push(chip("sample", String(state.sample)));
    box.replaceChildren(
      this.steps(row),
      title,
      element("ul", { class: "chips" }, ...chips),
      ...this.sideChoices(instance),
      drawSample(archive, state, instance, entry),
    );
    title.focus({ preventScroll: true });
    byId("attempts").scrollIntoView({ behavior: "instant" });
    // The compared attempts are at the top; the link requested another round.
    box.querySelector(".others ~ .columns [data-asked]")?.scrollIntoView({ behavior: "instant" });
  }

  /** Links: back, and the previous and next attempts in the list. */
  steps(row) {
    const button = (name, to) => {
      const made = element("button", { type: "button", disabled: to === undefined }, name);
      if (to !== undefined) made.addEventListener("click", () => this.open(to));
      return made;
    };
    const shortcut = { type: "button", "aria-keyshortcuts": "Escape" };
    const back = element("button", shortcut, "← Back to the list");
    back.addEventListener("click", () => this.close());
    const at = this.list.rows.indexOf(row);
    const every = counted(this.list.rows.length);
    const place = at < 0 ? "not in the filtered list" : `${counted(at + 1)} of ${every}`;
    return element(
      "div",
      { class: "steps" },
      back,
      button("Previous", this.list.beside(row, -1)),
      button("Next", this.list.beside(row, 1)),
      element("span", { class: "at" }, place),
    );
  }

  /** Controls that choose the two runs to show side by side, if there are more. */
  sideChoices(instance) {
    const { archive } = this;
    if (archive.runs.length < 3) return [];
    const chosen = sides(archive, this.state, instance);
    const choice = (title, key, run) => {
      const select = element("select");
      archive.runs.forEach(({ name }, number) => {
        const attributes = { value: number, selected: number === run };
        select.append(element("option", attributes, visible(name)));
      });
      select.addEventListener("change", () => this.go({ [key]: archive.runs[select.value].name }));
      select.id = `side-${key}`;
      const label = element("label", { for: select.id }, title);
      return element("div", { class: "choice" }, label, select);
    };
    const choices = [choice("Left", "left", chosen[0]), choice("Right", "right", chosen[1])];
    return [element("div", { class: "sides" }, ...choices)];
  }
}

const SIGNS = { passed: "✓", failed: "✗", "not judged": "?" };

async function begin() {
  theme.begin();
  followSections();
  stayWhereLinked();
  Figures.begin();
  new Browser(await Archive.open());
  performance.mark("attempts-ready");
}

begin();
