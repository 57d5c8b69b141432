/* Elements and texts. Everything that comes from a run goes through here as text: it is never
   interpreted as markup, and control or invisible characters are shown as escapes. */

/** Invisible or direction-changing characters (as in harness/report/html/inline.py). */
const HIDDEN =
  /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u034F\u115F\u1160\u17B4\u17B5\u180B-\u180F\u2800\u3164\uFE00-\uFE0D\uFFA0\u{E0100}-\u{E01EF}]/gu;

/** The visible form of such a character. */
function escaped(character) {
  return `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** A text for contexts without elements, such as an attribute or option. */
function visible(text) {
  return text.replace(HIDDEN, escaped);
}

/**
 * A text with its hidden characters marked.
 * @param {string} text
 * @param {string} wanted to be highlighted, in any case
 */
function written(text, wanted = "") {
  const whole = document.createDocumentFragment();
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    whole.append(highlighted(text.slice(from, found.index), wanted));
    whole.append(element("span", { class: "escape" }, escaped(found[0])));
    from = found.index + found[0].length;
  }
  whole.append(highlighted(text.slice(from), wanted));
  return whole;
}

/** A text without hidden characters, with the search text marked. */
function highlighted(text, wanted) {
  if (!wanted) return document.createTextNode(text);
  const whole = document.createDocumentFragment();
  const pattern = new RegExp(wanted.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"), "giu");
  let from = 0;
  for (const found of text.matchAll(pattern)) {
    const mark = document.createElement("mark");
    mark.textContent = found[0];
    whole.append(text.slice(from, found.index), mark);
    from = found.index + found[0].length;
  }
  whole.append(text.slice(from));
  return whole;
}

/**
 * Creates an element; hidden characters in texts and attributes are made visible.
 * @param {string} tag
 * @param {Object<string, string | number | boolean | null>} attributes
 *   our own names only; false and null ones are omitted
 * @param {...(Node | string | null)} children
 */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null) continue;
    made.setAttribute(name, value === true ? "" : visible(String(value)));
  }
  for (const child of children) {
    if (child === null) continue;
    made.append(typeof child === "string" ? plain(child) : child);
  }
  return made;
}

/** A plain text node if the text has no hidden characters, which is usual. */
function plain(text) {
  return text.search(HIDDEN) < 0 ? document.createTextNode(text) : written(text);
}

/** A number with thousands separators, as everywhere in the page. */
function counted(number) {
  return number.toLocaleString("en-US");
}

/** A number and what it counts. */
function several(number, one, more = `${one}s`) {
  return `${counted(number)} ${number === 1 ? one : more}`;
}

/** The element with an id. */
function byId(id) {
  return document.getElementById(id);
}
