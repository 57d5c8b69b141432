/* Searches all texts, one chunk at a time: the page stays responsive, and the list grows. */

class Search {
  /** @type {Uint8Array | null} which attempts contain the text; null without a search */
  hits = null;
  query = "";
  running = false;
  /** Share of the chunks searched so far. */
  done = 0;

  /**
   * @param {Archive} archive
   * @param {() => void} tell called repeatedly during a search, and at its end
   */
  constructor(archive, tell) {
    this.archive = archive;
    this.tell = tell;
  }

  /** Search for a text, ignoring case; an empty text ends the search. */
  async begin(query) {
    if (query === this.query) return;
    this.query = query;
    this.done = 0;
    this.running = query !== "";
    this.hits = query ? new Uint8Array(this.archive.length) : null;
    this.tell();
    if (query) await this.#run(query, query.toLowerCase());
  }

  /** Stop the search, keeping its results so far. */
  cancel() {
    this.running = false;
    this.tell();
  }

  async #run(query, wanted) {
    const { hits, archive } = this;
    let told = performance.now();
    let instance = 0;
    // If the JSON of a chunk does not contain the text, none of its texts does. Most chunks
    // therefore need not be parsed.
    const inJson = JSON.stringify(wanted).slice(1, -1);
    for (let number = 0; number < archive.chunkCount; number++) {
      const text = await archive.chunkText(number);
      if (query !== this.query || !this.running) return;
      const chunk = text.toLowerCase().includes(inJson) ? JSON.parse(text) : null;
      for (; archive.instances.chunk[instance] === number; instance++) {
        this.#mark(instance, chunk?.[archive.instances.place[instance]], wanted, hits);
      }
      this.done = (number + 1) / archive.chunkCount;
      if (performance.now() - told > 150) {
        this.tell();
        await breathe();
        told = performance.now();
      }
    }
    this.running = false;
    this.tell();
  }

  /** Mark the attempts of an instance that contain the text. */
  #mark(instance, entry, wanted, hits) {
    const [from, to] = [this.archive.first[instance], this.archive.first[instance + 1]];
    const has = (text) => full(text ?? "").toLowerCase().includes(wanted);
    if (has(this.archive.instances.name[instance])) {
      hits.fill(1, from, to);
      return;
    }
    if (!entry) return;
    const asked = entry.prompts.map((messages) => messages.some(([, text]) => has(text)));
    const { run, sample } = this.archive.rows;
    let prompt;
    for (let row = from; row < to; row++) {
      const attempt = entry.attempts[row - from];
      const anew = row === from || run[row] !== run[row - 1] || sample[row] !== sample[row - 1];
      if (anew) prompt = undefined;
      prompt = attempt.prompt ?? prompt;
      const told = [attempt.text, attempt.reasoning, attempt.feedback, attempt.error];
      for (const score of attempt.scores ?? []) told.push(score.reason, score.details);
      if (asked[prompt] || told.some(has)) hits[row] = 1;
    }
  }
}

/** The text, or its beginning if the page has only that. */
function full(text) {
  return typeof text === "string" ? text : text.text;
}
