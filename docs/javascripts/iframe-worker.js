// The search runs in a worker, which browsers do not start from file://. There, a frame replaces it.
// The theme would load a script of this name from the network.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.body.appendChild(document.createElement("iframe"));
      frame.hidden = true;
      this.frame = frame.contentWindow;
      this.loaded = new Promise((done) => frame.addEventListener("load", done));
      window.addEventListener("message", (event) => {
        if (event.source !== this.frame) return;
        this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      });
      this.frame.document.open();
      this.frame.document.write(
        `<script>window.postMessage = parent.postMessage.bind(parent);</script>` +
          `<script src="${url}"></script>`,
      );
      this.frame.document.close();
    }
    postMessage(data) {
      const event = new MessageEvent("message", { data });
      this.loaded.then(() => this.frame.dispatchEvent(event));
    }
  };
}
