/* Charts: drawn in the page's theme, at once on the first screen and for printing, else when they
   come near the screen; and saved as files. */

/** A chart must not load any URL, whatever its data contain. */
const CLOSED = {
  load: () => Promise.reject(new Error("A report loads nothing.")),
  sanitize: () => Promise.reject(new Error("A report links to nothing.")),
};

/** Pixels per row of the figures' grid, and between figures (`assets/page.css`). */
const ROW = 8;
const GAP = 24;

class Figures {
  #views = new Map();
  #wanted = new Set();
  #drawing = false;

  static begin() {
    const figures = new Figures();
    figures.places = [...document.querySelectorAll(".chart")];
    if (!figures.places.length) return;
    figures.specs = plainData("charts");
    figures.themes = plainData("themes");
    figures.#watch();
  }

  #watch() {
    const near = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          if (!isIntersecting) continue;
          near.unobserve(target);
          this.#want([target]);
        }
      },
      { rootMargin: "400px" },
    );
    // Before the page counts as loaded, when a screenshot may be taken.
    const first = (place) => place.getBoundingClientRect().top < innerHeight;
    const later = this.places.filter((place) => !first(place));
    this.places.filter(first).forEach((place) => this.#draw(place));
    later.forEach((place) => near.observe(place));
    this.#pack();
    theme.listeners.push(() => {
      if (!theme.printing) this.#want([...this.#views.keys()]);
    });
    addEventListener("beforeprint", () => {
      theme.print(true);
      // Synchronous: anything not drawn when this returns is not printed.
      this.places.forEach((place) => this.#draw(place));
    });
    addEventListener("afterprint", () => theme.print(false));
    for (const buttons of document.querySelectorAll(".downloads")) buttons.hidden = false;
    document.addEventListener("click", (event) => {
      const button = event.target.closest?.("[data-download]");
      if (button) this.#download(button);
    });
  }

  /** Let each figure span as many grid rows as its height needs, leaving no gaps. */
  #pack() {
    const heights = new ResizeObserver((entries) => {
      for (const { target } of entries) {
        const height = target.getBoundingClientRect().height + GAP;
        target.style.gridRowEnd = `span ${Math.ceil(height / ROW)}`;
      }
    });
    for (const place of this.places) heights.observe(place.closest("figure"), { box: "border-box" });
    for (const grid of document.querySelectorAll(".figures")) grid.classList.add("packed");
  }

  /** Draw the figures one after another, so that the page stays responsive. */
  async #want(places) {
    places.forEach((place) => this.#wanted.add(place));
    if (this.#drawing) return;
    this.#drawing = true;
    try {
      for (const place of this.#wanted) {
        this.#wanted.delete(place);
        await this.#draw(place);
        await breathe();
      }
    } finally {
      this.#drawing = false;
    }
  }

  async #draw(place) {
    this.#views.get(place)?.finalize();
    // In a separate element, because Vega changes the one that it draws in.
    const canvas = element("div", { "aria-hidden": "true" });
    place.replaceChildren(canvas);
    const result = await window.vegaEmbed(canvas, this.specs[Number(place.dataset.chart)], {
      mode: "vega-lite",
      renderer: "svg",
      ast: true, // an interpreter, since the page's policy forbids generated code
      actions: false,
      defaultStyle: false,
      config: this.themes[theme.dark ? "dark" : "light"],
      loader: CLOSED,
      tooltip: showTooltip,
    });
    this.#views.set(place, result);
    place.classList.add("drawn");
  }

  async #download(button) {
    const place = button.closest("figure").querySelector(".chart");
    if (!this.#views.has(place)) await this.#draw(place);
    const { view } = this.#views.get(place);
    const kind = button.dataset.download;
    // With the page's background, since the theme's is transparent.
    const ground = view.background();
    view.background(getComputedStyle(document.body).backgroundColor);
    const link = document.createElement("a");
    link.download = `${place.dataset.name}.${kind}`;
    if (kind === "png") {
      link.href = await view.toImageURL("png", 2);
    } else {
      link.href = URL.createObjectURL(new Blob([await view.toSVG()], { type: "image/svg+xml" }));
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    }
    view.background(ground);
    link.click();
  }
}

/** The tooltip of a mark: like Vega's, but with values as text. */
function showTooltip(handler, event, item, value) {
  const box = byId("tooltip");
  if (value === null || value === undefined || value === "") {
    box.hidden = true;
    return;
  }
  box.replaceChildren(
    typeof value === "object"
      ? element(
          "dl",
          {},
          ...Object.entries(value).flatMap(([name, each]) => [
            element("dt", {}, name),
            element("dd", {}, String(each)),
          ]),
        )
      : plain(String(value)),
  );
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const left = Math.min(event.clientX + 12, innerWidth - width - 8);
  const below = event.clientY + 16;
  const top = below + height > innerHeight ? event.clientY - height - 10 : below;
  box.style.transform = `translate(${Math.max(8, left)}px, ${Math.max(8, top)}px)`;
}
