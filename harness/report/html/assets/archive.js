/* Reads the data in the page: charts, the index of attempts, and their texts in chunks. */

const parsed = new Promise((resolve) => {
  if (document.readyState !== "loading") resolve();
  else document.addEventListener("DOMContentLoaded", () => resolve(), { once: true });
});

/** The value of a data element that is not compressed and precedes the scripts. */
function plainData(name) {
  return JSON.parse(new TextDecoder().decode(fromBase64(byId(name).textContent)));
}

/** Decompresses the text of a data element (written by harness/report/html/inline.py). */
async function unpacked(name) {
  let block = byId(name);
  // While the file is still loading, the last element may be incomplete.
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

/** Let the browser draw and handle keys before continuing. */
function breathe() {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

/** The attempts: a complete index, and texts that are decompressed on demand. */
class Archive {
  static MOST_CHUNKS = 8;

  /** @type {Map<number, Promise<Array>>} recently used chunks, oldest first */
  #chunks = new Map();

  constructor(index) {
    this.runs = index.runs;
    this.outcomes = index.outcomes;
    this.labels = index.labels;
    this.instances = index.instances;
    this.changes = index.changes;
    /** The comparison: its last round (null for all); null without a comparison. */
    this.compared = index.compared;
    const { snippet, ...numbers } = index.rows;
    this.snippet = snippet;
    /** Columns of the attempts: instance, run, sample, round, last, outcome, passed. */
    this.rows = Object.fromEntries(
      Object.entries(numbers).map(([name, column]) => [name, Int32Array.from(column)]),
    );
    this.length = snippet.length;
    /** The first attempt of each instance, then one past the last attempt. */
    this.first = new Int32Array(this.instances.name.length + 1);
    this.first[this.instances.name.length] = this.length;
    for (let row = this.length - 1; row >= 0; row--) this.first[this.rows.instance[row]] = row;
    this.chunkCount = (this.instances.chunk.at(-1) ?? -1) + 1;
  }

  static async open() {
    return new Archive(JSON.parse(await unpacked("index")));
  }

  /** The verdict on an attempt: passed, failed, not judged. */
  verdict(row) {
    return VERDICTS[this.rows.passed[row]];
  }

  /** The index of an instance by name; -1 if there is none. */
  place(name) {
    this.places ??= new Map(this.instances.name.map((each, place) => [each, place]));
    return this.places.get(name) ?? -1;
  }

  /** The prompts and attempts of an instance, as in its chunk; attempts in the order of rows. */
  async texts(instance) {
    const chunk = await this.#chunk(this.instances.chunk[instance]);
    return chunk[this.instances.place[instance]];
  }

  /** The JSON of a chunk, for searching; not cached. */
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
