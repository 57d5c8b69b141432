/* Light or dark mode, by the system or the reader; and the current section of the page. */

const THEMES = ["auto", "light", "dark"];
const SYSTEM_DARK = matchMedia("(prefers-color-scheme: dark)");

const theme = {
  chosen: "auto",
  printing: false,
  /** Whether the page is dark now. */
  shown: false,
  /** @type {Array<() => void>} called when the theme changes */
  listeners: [],

  get dark() {
    if (theme.printing || theme.chosen === "light") return false;
    return theme.chosen === "dark" || SYSTEM_DARK.matches;
  },

  apply() {
    const fixed = theme.printing ? "light" : theme.chosen;
    if (fixed === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = fixed;
    const sign = { auto: "◐", light: "○", dark: "●" }[theme.chosen];
    byId("theme").replaceChildren(
      element("span", { "aria-hidden": "true" }, sign),
      element("span", {}, ` Theme: ${theme.chosen}`),
    );
    byId("theme").setAttribute("aria-label", `Theme: ${theme.chosen}`);
    if (theme.shown !== theme.dark) {
      theme.shown = theme.dark;
      theme.listeners.forEach((listener) => listener());
    }
  },

  /** In print the page is light. */
  print(printing) {
    theme.printing = printing;
    theme.apply();
  },

  begin() {
    theme.chosen = THEMES.includes(remembered()) ? remembered() : "auto";
    const button = byId("theme");
    button.hidden = false;
    button.addEventListener("click", () => {
      theme.chosen = THEMES[(THEMES.indexOf(theme.chosen) + 1) % THEMES.length];
      remember(theme.chosen);
      theme.apply();
    });
    SYSTEM_DARK.addEventListener("change", theme.apply);
    theme.apply();
  },
};

/** Browsers may forbid local files to store data; the choice is then not remembered. */
function remembered() {
  try {
    return localStorage.getItem("harness-theme");
  } catch {
    return null;
  }
}

function remember(chosen) {
  try {
    localStorage.setItem("harness-theme", chosen);
  } catch {
    // Storing is forbidden, as described above.
  }
}

/** Mark the visible section in the bar at the top. */
function followSections() {
  const links = new Map(
    [...document.querySelectorAll(".bar li a")].map((link) => [link.hash.slice(1), link]),
  );
  const seen = new Set();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) seen.add(target);
        else seen.delete(target);
      }
      const [first] = sections.filter((section) => seen.has(section));
      for (const link of links.values()) link.removeAttribute("aria-current");
      const current = links.get(first?.id || "main");
      current?.setAttribute("aria-current", "true");
      if (current) reveal(current);
    },
    { rootMargin: "-20% 0px -60% 0px" },
  );
  const sections = [...document.querySelectorAll("main > section")];
  sections.forEach((section) => observer.observe(section));
}

/** Scroll only the bar, to centre its link as far as possible. */
function reveal(link) {
  const nav = link.closest("nav");
  const left = link.getBoundingClientRect().left - nav.getBoundingClientRect().left;
  nav.scrollLeft += left - (nav.clientWidth - link.offsetWidth) / 2;
}
