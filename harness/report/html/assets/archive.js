/* Unpacking what the file holds: the charts, the index of attempts, their texts in chunks. */

const parsed = new Promise((resolve) => {
  if (document.readyState !== "loading") resolve();
  else document.addEventListener("DOMContentLoaded", () => resolve(), { once: true });
});

/** The text of a data element, compressed (harness/report/html/blocks.py). */
async function unpacked(name) {
  let block = byId(name);
  // While the file is still being read, the last element may be there in part.
  if (!block?.nextSibling) {
    await parsed;
    block = byId(name);
  }
  const bytes = fromBase64(block.textContent);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Let the browser draw and answer keys before going on. */
function breathe() {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

/** The attempts: an index that is all there, and texts, unpacked when they are asked for. */
class Archive {
  static MOST_CHUNKS = 8;

  /** @type {Map<number, Promise<Array>>} the last used ones, the oldest first */
  #chunks = new Map();

  constructor(index) {
    this.runs = index.runs;
    this.outcomes = index.outcomes;
    this.labels = index.labels;
    this.instances = index.instances;
    this.changes = index.changes;
    /** What is compared: the round up to which, null for all; null where nothing is. */
    this.compared = index.compared;
    const { snippet, ...numbers } = index.rows;
    this.snippet = snippet;
    /** Columns of the attempts: instance, run, sample, round, last, outcome, passed. */
    this.rows = Object.fromEntries(
      Object.entries(numbers).map(([name, column]) => [name, Int32Array.from(column)]),
    );
    this.length = snippet.length;
    /** The first attempt of each instance, and one past the last of all. */
    this.first = new Int32Array(this.instances.name.length + 1);
    this.first[this.instances.name.length] = this.length;
    for (let row = this.length - 1; row >= 0; row--) this.first[this.rows.instance[row]] = row;
    this.chunkCount = (this.instances.chunk.at(-1) ?? -1) + 1;
  }

  static async open() {
    return new Archive(JSON.parse(await unpacked("index")));
  }

  /** Names of the verdict of an attempt: passed, failed, not judged. */
  verdict(row) {
    return VERDICTS[this.rows.passed[row]];
  }

  /** The place of an instance by its name, -1 where there is none. */
  place(name) {
    this.places ??= new Map(this.instances.name.map((each, place) => [each, place]));
    return this.places.get(name) ?? -1;
  }

  /** The prompts and attempts of an instance; the latter as in `first`. */
  async texts(instance) {
    const chunk = await this.#chunk(this.instances.chunk[instance]);
    return chunk[this.instances.place[instance]];
  }

  /** The JSON of a chunk, for searching; it is not kept. */
  chunkText(number) {
    return unpacked(`chunk-${number}`);
  }

  #chunk(number) {
    const chunk = this.#chunks.get(number) ?? unpacked(`chunk-${number}`).then(JSON.parse);
    this.#chunks.delete(number);
    this.#chunks.set(number, chunk);
    if (this.#chunks.size > Archive.MOST_CHUNKS) {
      this.#chunks.delete(this.#chunks.keys().next().value);
    }
    return chunk;
  }
}

const VERDICTS = { 1: "passed", 0: "failed", "-1": "not judged" };
