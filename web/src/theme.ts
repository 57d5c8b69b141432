/* Light or dark mode, by the system or the reader; in print the page is light. */

import { computed, effect, signal } from "@preact/signals";

export const THEMES = ["auto", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];
const KEY = "harness-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(system.matches);

/** Browsers may forbid local files to store data; the choice is then not remembered. */
function stored(chosen?: Theme): string | null {
  try {
    if (chosen) localStorage.setItem(KEY, chosen);
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export const theme = signal<Theme>(THEMES.find((each) => each === stored()) ?? "auto");
export const printing = signal(false);
export const dark = computed(
  () => !printing.value && (theme.value === "dark" || (theme.value === "auto" && systemDark.value)),
);

export function nextTheme() {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!;
  stored(theme.value);
}

system.addEventListener("change", () => (systemDark.value = system.matches));
addEventListener("beforeprint", () => (printing.value = true));
addEventListener("afterprint", () => (printing.value = false));
effect(() => {
  const fixed = printing.value ? "light" : theme.value;
  if (fixed === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = fixed;
});
