/* The list: rows of equal height; only the visible ones exist as elements. */

class List {
  /** Browsers cannot position elements much further down than this. */
  static MOST_PIXELS = 15_000_000;
  static BEYOND = 6;

  rows = new Int32Array(0);
  active = 0;
  #shown = new Map();
  #waiting = false;

  /**
   * @param {HTMLElement} box
   * @param {(row: number) => HTMLElement} draw makes the element of an attempt
   * @param {(row: number) => void} open
   */
  constructor(box, draw, open) {
    this.box = box;
    this.draw = draw;
    this.open = open;
    this.space = element("div", { class: "height", role: "presentation" });
    box.append(this.space);
    box.addEventListener("scroll", () => this.#soon(), { passive: true });
    box.addEventListener("keydown", (event) => this.#key(event));
    box.addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]");
      if (!row) return;
      this.#choose(Number(row.dataset.at));
      this.open(this.rows[this.active]);
    });
    new ResizeObserver(() => this.#soon()).observe(box);
  }

  /** Show other attempts; the active one stays active if it is among them. */
  show(rows) {
    const before = this.rows[this.active];
    this.rows = rows;
    const at = rows.indexOf(before);
    this.active = Math.max(0, at);
    this.#clear();
    this.#measure();
    if (at < 0) this.box.scrollTop = 0;
    else this.#reveal();
    this.#render();
  }

  /** Make an attempt in the list the active one. */
  choose(row) {
    const at = this.rows.indexOf(row);
    if (at >= 0) this.#choose(at);
  }

  /** The attempt at an offset from the active one; undefined past either end. */
  beside(row, by) {
    const at = this.rows.indexOf(row);
    return at < 0 ? undefined : this.rows[at + by];
  }

  #measure() {
    this.height = parseFloat(getComputedStyle(this.box).getPropertyValue("--row")) || 44;
    const total = this.rows.length * this.height;
    const view = this.box.clientHeight;
    const pixels = Math.min(total, List.MOST_PIXELS);
    this.space.style.height = `${pixels}px`;
    // If the list is too long, a pixel of scrolling moves it by several pixels.
    this.factor = total > pixels ? (total - view) / (pixels - view) : 1;
  }

  /** Position of the upper edge in the list. */
  get #top() {
    return this.box.scrollTop * this.factor;
  }

  #soon() {
    if (this.#waiting) return;
    this.#waiting = true;
    requestAnimationFrame(() => {
      this.#waiting = false;
      this.#measure();
      this.#render();
    });
  }

  #render() {
    const top = this.#top;
    const { scrollTop, clientHeight } = this.box;
    const first = Math.max(0, Math.floor(top / this.height) - List.BEYOND);
    const end = Math.min(
      this.rows.length,
      Math.ceil((top + clientHeight) / this.height) + List.BEYOND,
    );
    for (const [at, shown] of this.#shown) {
      if (at >= first && at < end) continue;
      shown.remove();
      this.#shown.delete(at);
    }
    const fresh = document.createDocumentFragment();
    for (let at = first; at < end; at++) {
      let shown = this.#shown.get(at);
      if (!shown) {
        shown = this.draw(this.rows[at]);
        shown.id = `row-${at}`;
        shown.dataset.at = String(at);
        shown.setAttribute("role", "option");
        shown.setAttribute("aria-posinset", String(at + 1));
        shown.setAttribute("aria-setsize", String(this.rows.length));
        this.#shown.set(at, shown);
        fresh.append(shown);
      }
      shown.style.transform = `translateY(${at * this.height - top + scrollTop}px)`;
      shown.setAttribute("aria-selected", String(at === this.active));
    }
    this.box.append(fresh);
    if (this.#shown.has(this.active)) {
      this.box.setAttribute("aria-activedescendant", `row-${this.active}`);
    } else {
      this.box.removeAttribute("aria-activedescendant");
    }
  }

  #clear() {
    for (const shown of this.#shown.values()) shown.remove();
    this.#shown.clear();
  }

  #choose(at) {
    this.active = Math.min(Math.max(0, at), this.rows.length - 1);
    this.#reveal();
    this.#render();
  }

  /** Scroll the active row into view. */
  #reveal() {
    const from = this.active * this.height;
    const room = this.box.clientHeight - this.height;
    if (from < this.#top) this.box.scrollTop = from / this.factor;
    else if (from > this.#top + room) this.box.scrollTop = (from - room) / this.factor;
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.rows.length) return;
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.height) - 1);
    const to = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + page,
      PageUp: this.active - page,
      Home: 0,
      End: this.rows.length - 1,
    }[event.key];
    if (to !== undefined) this.#choose(to);
    else if (event.key === "Enter" || event.key === " ") this.open(this.rows[this.active]);
    else return;
    event.preventDefault();
  }
}
