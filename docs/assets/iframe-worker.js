/* Search from a file: browsers refuse to start a Worker on file://, so the search script runs in a hidden frame.
 *
 * The theme's offline plugin would load such a shim from another host. This one has what the theme's search
 * uses of a Worker: messages both ways, in order, once the script is there.
 */
(() => {
  if (location.protocol !== "file:") return;

  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html><title>search</title>";
      this.ready = new Promise((resolve, reject) => {
        this.frame.addEventListener("load", () => {
          const inside = this.frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inside.document.createElement("script");
          script.addEventListener("load", () => resolve(inside));
          script.addEventListener("error", () => reject(new Error(`${url} cannot be loaded`)));
          script.src = new URL(url, document.baseURI).href;
          inside.document.head.append(script);
        }, { once: true });
      });
      document.body.append(this.frame);
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
})();
