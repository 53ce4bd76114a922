document.getElementById("theme").addEventListener("click", switchTheme);

for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column], value = cell.dataset.value;
    return value === undefined ? cell.textContent : value === "" ? NaN : Number(value);
  };
  // Rows without a number stay last, whatever the direction.
  const compare = (a, b, sign) => typeof a === "string" ? sign * a.localeCompare(b, "en", { numeric: true })
    : Number.isNaN(a) ? (Number.isNaN(b) ? 0 : 1) : Number.isNaN(b) ? -1 : sign * (a - b);
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => compare(key(a, column), key(b, column), sign));
    table.tBodies[0].append(...rows);
  }));
}

for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const text = button.nextElementSibling;
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "Selected: press Ctrl+C";
    }
  });
}

// Search: rows that hold every word of the field stay.
for (const field of document.querySelectorAll("input[data-table]")) {
  const rows = [...document.getElementById(field.dataset.table).tBodies[0].rows];
  const texts = rows.map(row => row.textContent.toLowerCase());
  const output = field.parentElement.querySelector("output");
  const search = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    rows.forEach((row, k) => { row.hidden = !words.every(word => texts[k].includes(word)); count += !row.hidden; });
    output.textContent = `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
  };
  field.addEventListener("input", search);
  search();
}

// A link from the table opens the run it leads to.
const open = () => { const part = document.getElementById(location.hash.slice(1)); if (part) part.open = true; };
addEventListener("hashchange", open);
open();
