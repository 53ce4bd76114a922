// Before anything is drawn: the reader's choice, or what the system prefers.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const show = theme => { document.documentElement.dataset.theme = theme; };
  let chosen = null;
  try { chosen = localStorage.getItem("calmix-theme"); } catch { /* private windows keep nothing */ }
  show(chosen || (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", event => { if (!chosen) show(event.matches ? "dark" : "light"); });
  let before;
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    show("light");
    document.querySelectorAll("details:not([open])").forEach(part => { part.open = true; part.dataset.closed = ""; });
  });
  addEventListener("afterprint", () => {
    show(before);
    document.querySelectorAll("details[data-closed]").forEach(part => { part.open = false; delete part.dataset.closed; });
  });
  window.switchTheme = () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    show(chosen);
    try { localStorage.setItem("calmix-theme", chosen); } catch { /* then for this visit only */ }
  };
})();
