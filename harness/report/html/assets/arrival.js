/* Keeps a linked section in view until the reader scrolls, as charts above it are still drawn. */

const OF_A_READER = ["wheel", "touchmove", "keydown", "pointerdown"];

function stayWhereLinked() {
  let moved = false;
  for (const kind of OF_A_READER) {
    addEventListener(kind, () => { moved = true; }, { passive: true, capture: true });
  }
  addEventListener("hashchange", () => { moved = false; });
  new ResizeObserver(() => {
    // A link to an attempt is more specific than a section, and scrolls by itself.
    const section = /^#[\w-]+$/.test(location.hash) && byId(location.hash.slice(1));
    if (section && !moved) section.scrollIntoView({ behavior: "instant" });
  }).observe(document.body);
}
